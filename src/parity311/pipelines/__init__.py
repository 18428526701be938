"""The whole way of the data, from records to an audited policy."""
