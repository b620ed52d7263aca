"""The command `streamddcrp report`: results as pictures, pages and sentences."""
