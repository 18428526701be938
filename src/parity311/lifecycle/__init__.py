"""The life of a policy: proposed, released, watched, rolled back, in a log that shows any change.

A policy enters the registry as an immutable version: its package, the records it was learned from,
the reward it was made for and the verdict of its audit. What happens to it is an act by a named
person with a reason; each act is an entry of a log in which every entry carries the hash of the one
before. Today's rule decides wherever no policy does.
"""
