"""What people see of the steps of work orders, and how long they are kept in the databases of their transactions."""
