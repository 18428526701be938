"""The desk: where staff decide, auditors look, and residents get an answer.

One web application over the registry's database. A recommendation is made once, when a complaint
comes in, by the path that `parity311 recommend` takes; nothing executes itself: a named person
accepts it or decides otherwise, and that is an entry of a hash-chained log.
"""
