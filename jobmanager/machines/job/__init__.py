"""The JobMaster: one job from its submission to its end."""
