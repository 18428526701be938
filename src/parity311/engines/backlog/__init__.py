"""Cases that wait together: a step decides how the day's visits are spread over them."""
