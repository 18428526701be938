"""Every domain's policies beside each other in the published reward, and a place for yours."""
