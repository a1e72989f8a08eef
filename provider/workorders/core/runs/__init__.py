"""The life of a run in the database: claim, start, finish, retry, release, recover."""
