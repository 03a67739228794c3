from forage.cli import main

main()
