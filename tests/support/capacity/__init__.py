"""Small clouds for capacity, and brute force."""
