"""Who is served: rates by stratum, with intervals and a verdict."""
