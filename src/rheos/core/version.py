"""The version of Rheos, even if Rheos runs from a zip file and is not an installed package."""

VERSION = "0.2.0"
