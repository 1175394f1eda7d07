"""The door for assistants: the operations on jobs as tools of the Model Context Protocol."""
