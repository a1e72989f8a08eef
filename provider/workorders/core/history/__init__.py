"""What people read: filters, pages, the index of words, counts."""
