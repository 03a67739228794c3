"""Networks, action distributions and normalisation: plain pytrees of arrays."""
