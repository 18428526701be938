"""Work that is done anywhere: a job is a pure function by name, an engine is where it runs.

`job` says what a job is and what its result is called; `attempt` does one, in whatever process;
`drive` hands them out, tries again what was lost and keeps what is finished; `local` and `on_ray`
are the two engines, and `choose` opens the one that was asked for.
"""
