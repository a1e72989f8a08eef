"""Applications for `spark-submit`, in their own folder: Python puts the folder of a script on its search path."""
