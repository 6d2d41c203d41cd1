"""Pure rules of promotion: how a replacement goes, and whether its evidence still holds."""
