"""Sources and sinks on servers."""
