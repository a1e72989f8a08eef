"""Applications for `spark-submit`, in a folder of their own: Python puts the folder of a script on its search path."""
