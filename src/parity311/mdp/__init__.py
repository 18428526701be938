"""The contract every domain follows: step, time, vector reward, equity."""
