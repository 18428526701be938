"""Steps from one layout of the registry's database to the next, in order; Alembic runs them."""
