"""The life of a run in the database: claim, start, heartbeat, finish, retry, recover."""
