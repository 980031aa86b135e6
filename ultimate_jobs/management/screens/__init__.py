"""What a terminal shows. Every stored text is shown as text, never as markup."""
