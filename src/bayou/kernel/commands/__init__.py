"""Commands that change a table. Most commands write data files and then commit one transaction.

Each command has one module or folder: `write`, `row_changes` (DELETE, UPDATE), `merge`, `alter`,
`optimize`, `vacuum`, `restore`, `clone`, `convert`, `create_table`.
"""
