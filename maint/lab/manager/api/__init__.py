"""The management API as pure functions: a request and the world go in, a response comes out."""
