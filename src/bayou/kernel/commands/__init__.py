"""Commands that change a table: each plans, writes files and commits one transaction.

One module or folder for each command: `write`, `row_changes` (DELETE, UPDATE), `merge`, `alter`,
`optimize`, `vacuum`, `restore`, `clone`, `convert`, `create_table`.
"""
