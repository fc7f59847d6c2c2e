"""The command `wayeb` as an application of spark-submit's: everything after this file's name is its command line.

    wayeb ship --out wayeb_py.zip
    spark-submit --master spark://HOST:7077 --py-files wayeb_py.zip \\
        wayeb_on_spark.py run patterns/fleet/driving.sre --data /shared/events --out /shared/found/ --scheme auto

The master, memory and number of executors are spark-submit's business; pattern files are read by the driver, events by
the executors, so that their paths must mean the same everywhere.
"""

from wayeb_py.cli import main

if __name__ == "__main__":
    main()
