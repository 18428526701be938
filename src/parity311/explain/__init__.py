"""Which features drive a policy, which stand in for who lives there, and plain reasons."""
