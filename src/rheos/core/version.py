"""The version of Rheos, also if Rheos was shipped as a zip file and is not an installed package."""

VERSION = "0.2.0"
