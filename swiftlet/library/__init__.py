"""The functions of `import swiftlet`, which the command line uses too."""
