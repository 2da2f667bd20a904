"""The report as one HTML file that needs no network: data, style and scripts are inside it."""
