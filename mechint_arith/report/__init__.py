"""Values -> sections -> one HTML file that opens offline."""
