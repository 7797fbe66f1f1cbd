"""Operations that change a table's rows or files: planning apart from execution, commit last."""
