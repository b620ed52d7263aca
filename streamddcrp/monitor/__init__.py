"""Monitoring built on a model: alarms, anomaly detection, change points, features of windows."""
