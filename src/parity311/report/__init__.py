"""A run on disk, its pictures and its report.

`store` writes a run aside and renames it when it is complete, `folder` opens it, `pictures` draws,
`sections` holds what a report says and `page` renders the page from the folder alone.
"""
