"""Forged states, odd inputs and unkind streams; `make fuzz` runs them for as long as one likes."""
