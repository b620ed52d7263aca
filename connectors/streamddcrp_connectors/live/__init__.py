"""Sources and sinks on servers: streams that have no end and no file."""
