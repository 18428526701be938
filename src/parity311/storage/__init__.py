"""Files and folders that are whole or not there, with one writer at a time; any layer may use it.

`disk` writes what lasts and says in one line what the disk refused; `aside` writes a file under
another name first; `locks` tell a living writer from a dead one; `folders` replace a whole folder,
and only one of the same kind; `hashes` find what was changed afterwards; `scratch` is a process's
own room for what does not outlive it.
"""
