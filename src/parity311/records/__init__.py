"""The canonical tables: schema, validation, storage, point-in-time features."""
