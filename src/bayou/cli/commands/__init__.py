"""The commands of `bayou`, one module each; `bayou.cli.main` registers them."""
