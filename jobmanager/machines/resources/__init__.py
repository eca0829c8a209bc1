"""The ResourceManager: registered TaskManagers, their slots, and the TaskManagers that it starts itself."""
