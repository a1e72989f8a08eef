"""Exit code 0 if Airflow's API server reports that a component is healthy: `python check_health.py scheduler`."""

import json
import sys
import urllib.request

with urllib.request.urlopen("http://api-server:8080/api/v2/monitor/health", timeout=8) as answer:
    health = json.load(answer)[sys.argv[1]]
sys.exit(health["status"] != "healthy")
