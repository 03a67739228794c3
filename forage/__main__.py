from forage.cli.entry import main

main()
