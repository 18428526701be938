"""Complaints that come in one by one, each decided about at once; a queue and a crew serve them."""
