"""What every room is built on; it imports no other room."""
