# ruff: noqa: E501 -- a table
"""Files in the manner of well-known public data sets run at the obvious command, row for row."""

import json
import shlex
from datetime import datetime, timedelta

import numpy as np
import pytest
from click.testing import CliRunner

from streamddcrp_connectors.cli import main

N = 300
rng = np.random.default_rng(11)
X = rng.normal(np.repeat([10.0, 20.0], N // 2), 1.0).round(3)
Y = rng.normal(np.repeat([30.0, 60.0], N // 2), 2.0).round(3)


def at(i, step):
    return datetime(2021, 3, 13) + timedelta(seconds=step * i)


def comma(x):
    return f"{x:.1f}".replace(".", ",")


def lines(head, row, *, order=range(N), tail=()):
    return "\n".join([*head, *(row(i) for i in order), *tail]) + "\n"


FILES = {  # name: text, options, columns of the time, features
    "AirQualityUCI.csv": (
        lines(["Date;Time;CO(GT);PT08.S1(CO);T;;"],
              lambda i: f"{at(i, 3600):%d/%m/%Y;%H.00.00};{comma(X[i]) if i % 9 else '-200'};"
                        f"{Y[i]:.0f};{comma(X[i])};;", tail=[";;;;;;"] * 20),
        "", "Date + Time", "CO(GT),PT08.S1(CO),T",
    ),
    "household_power_consumption.txt": (
        lines(["Date;Time;Global_active_power;Voltage"],
              lambda i: f"{at(i, 600):%d/%m/%Y;%H:%M:%S};"
                        + (f"{X[i]};{Y[i]}" if i % 50 != 7 else "?;?")),
        "--time Date", "Date + Time", "Global_active_power,Voltage",
    ),
    "PRSA_data.csv": (
        lines(["No,year,month,day,hour,pm2.5,DEWP,cbwd"],
              lambda i: f"{i + 1},{at(i, 3600):%Y,%-m,%-d,%-H},{'NA' if i < 24 else Y[i]},{X[i]},"
                        f"{('NW', 'cv')[i % 2]}"),
        "", "year + month + day + hour", "pm2.5,DEWP",
    ),
    "hour.csv": (
        lines(["instant,dteday,season,hr,temp,cnt"],
              lambda i: f"{i + 1},{at(i, 3600):%Y-%m-%d},1,{at(i, 3600).hour},{X[i]},{Y[i]:.0f}"),
        "--time dteday", "dteday", "season,hr,temp,cnt",
    ),
    "datatraining.txt": (
        lines(['"date","Temperature","Light"'], lambda i: f'"{i + 1}","{at(i, 60)}",{X[i]},{Y[i]}'),
        "", "date", "Temperature,Light",
    ),
    "SN_m_tot.txt": (
        lines([], lambda i: f"{1749 + i // 12} {i % 12 + 1:02d} {1749 + i / 12:.3f}  {Y[i]:5.1f} -1 "),
        "", None, "c1,c2,c3,c4,c5",
    ),
    "exchange_rate.txt": (lines([], lambda i: f"{X[i]},{Y[i]}"), "", None, "c1,c2"),
    "valve.csv": (
        lines(["datetime;Current;Volume Flow;anomaly"],
              lambda i: f"{at(i, 1)};{X[i]};{Y[i]};{float(i > 99)}"),
        "--time datetime", "datetime", "Current,Volume Flow,anomaly",
    ),
    "41001h2021.txt": (
        lines(["#YY  MM DD hh mm WSPD  PRES  WVHT", "#yr  mo dy hr mn m/s   hPa   m"],
              lambda i: f"{at(i, 600):%Y %m %d %H %M} {X[i]:4.1f} {Y[i]:.1f}  MM",
              order=range(N)[::-1]),
        "", "YY + MM + DD + hh + mm", "WSPD,PRES,WVHT",
    ),
    "co2_weekly_mlo.csv": (
        lines(["# USE OF NOAA GML DATA", "#", "year,month,day,decimal,average,1 year ago"],
              lambda i: f"{at(i, 86400):%Y,%m,%d},{2021 + i / 365:.4f},{Y[i]},"
                        f"{'-999.99' if i < 52 else X[i]}"),
        "", "year + month + day", "decimal,average,1 year ago",
    ),
    "BTC-USD Historical Data.csv": (
        "\ufeff" + lines(['"Date","Price","Vol.","Change %"'],
              lambda i: f'"{at(i, 86400):%b %d, %Y}","{1000 + X[i]:,.2f}","{Y[i]:.1f}K","{X[i]:.2f}%"',
              order=range(N)[::-1]),
        "", "Date", "Price,Vol.,Change %",
    ),
    "Bitstamp_BTCUSD_1h.csv": (
        lines(["https://www.CryptoDataDownload.com", "unix,date,symbol,close"],
              lambda i: f"{1615593600 + 3600 * i},{at(i, 3600)},BTC/USD,{Y[i]}",
              order=range(N)[::-1]),
        "--time date", "date", "unix,close",
    ),
    "DGS10.csv": (
        lines(["DATE,DGS10"], lambda i: f"{at(i, 86400):%Y-%m-%d},{'.' if i % 7 == 5 else X[i]}"),
        "", "DATE", "DGS10",
    ),
    "mtcars.csv": (lines(['"","mpg","disp"'], lambda i: f'"Car {i}",{X[i]},{Y[i]}'), "", None, "mpg,disp"),
    "bericht.csv": (
        lines(["Monthly report;;;", "Generated 2021-04-01;;;", ";;;", "Datum;Temperatur;Druck;Ort"],
              lambda i: f"{at(i, 600):%d.%m.%Y %H:%M};{comma(X[i])};{comma(Y[i])};Halle {i % 2}"),
        "--time Datum", "Datum", "Temperatur,Druck",
    ),
    "LD2011_2014.txt": (
        lines(['"";"MT_001";"MT_002"'], lambda i: f'"{at(i, 900)}";{comma(X[i])};{comma(Y[i])}'),
        "", "c1", "MT_001,MT_002",
    ),
    "ethylene_CO.txt": (
        lines(["Time (seconds), CO conc (ppm), sensor readings (2 channels)"],
              lambda i: f"{i / 100:.2f}    0.00    {X[i]}  {Y[i]}  "),
        "", None, "c1,c2,c3,c4",
    ),
    "train_FD001.txt": (lines([], lambda i: f"1 {i + 1} -0.0007 {X[i]} {Y[i]}  "), "", None, "c1,c2,c3,c4,c5"),
    "2004.02.12.10.32.39": (lines([], lambda i: f"{X[i]}\t{Y[i]}"), "", None, "c1,c2"),
    "samples.csv": (
        lines(["'Elapsed time','ECG','ECG'", "'hh:mm:ss.mmm','mV','mV'"],
              lambda i: f"'{i // 60:7d}:{i % 60:02d}.000',{X[i]},{Y[i]}"),
        "", None, "'ECG','ECG'_2",
    ),
    "open-meteo-52.52N13.42E38m.csv": (
        lines(["latitude,longitude,elevation,utc_offset_seconds,timezone,timezone_abbreviation",
               "52.52,13.41,38.0,0,GMT,GMT", "", "time,temperature_2m (°C),rain (mm)"],
              lambda i: f"{at(i, 3600):%Y-%m-%dT%H:%M},{X[i]},{Y[i]}"),
        "", "time", "temperature_2m (°C),rain (mm)",
    ),
    "jena_climate.csv": (
        lines(['"Date Time","p (mbar)","wv (m/s)"'],
              lambda i: f"{at(i, 600):%d.%m.%Y %H:%M:%S},{Y[i]},{-9999.0 if i in (50, 52) else X[i]}"),
        "", "Date Time", "p (mbar),wv (m/s)",
    ),
    "daily-min-temperatures.csv": (
        lines(['"Date","Temp"'], lambda i: f'"{at(i, 86400):%Y-%m-%d}",{"?" * (i in (20, 40))}{X[i]}'),
        "", "Date", "Temp",
    ),
    "GLB.Ts+dSST.csv": (
        lines(["Land-Ocean: Global Means", "Year,Jan,J-D"],
              lambda i: f"{1700 + i},{X[i]},{'***' if i > 295 else Y[i]}"),
        "--time Year", "Year", "Jan,J-D",
    ),
    "KDDTrain+.txt": (
        lines([], lambda i: f"{i % 3},{('tcp', 'udp')[i % 2]},SF,{Y[i]:.0f},{X[i]},normal"),
        "", None, "c1,c4,c5",
    ),
    "SMSSpamCollection.tsv": (
        lines([], lambda i: ("ham\tGo until jurong point, crazy..", "spam\tYou have WON a prize")[i % 2]
              + f" {i}"),
        "--text c2", None, "c2",
    ),
    "auto-mpg.data": (
        lines([], lambda i: f'{X[i]:.1f}   8   {"?" if i % 50 == 3 else Y[i]}      3504.\t"chevrolet {i}"'),
        "", None, "c1,c2,c3,c4",
    ),
    "seeds_dataset.txt": (
        lines([], lambda i: f"{X[i]}\t{Y[i]}\t" + "\t" * (i % 40 == 7) + "0.87"), "", None, "c1,c2,c3",
    ),
    "PJME_hourly.csv": (
        lines(["Datetime,PJME_MW"], lambda i: f"{at(i, 3600)},{Y[i]}",
              order=[i for day in range(N // 24, -1, -1) for i in range(N) if i // 24 == day]),
        "--time Datetime", "Datetime", "PJME_MW",
    ),
    "EURUSD_Candlestick.csv": (
        lines(["Local time,Open,Close"], lambda i: f"{at(i, 60):%d.%m.%Y %H:%M:%S}.000 GMT+0100,{X[i]},{Y[i]}"),
        '--time "Local time"', "Local time", "Open,Close",
    ),
    "elecNormNew.arff": (
        lines(["@relation electricity", "", "@attribute period numeric", "@attribute price numeric",
               "@attribute class {UP,DOWN}", "", "@data"], lambda i: f"{X[i]},{Y[i]},{('UP', 'DOWN')[i % 2]}"),
        "", None, "period,price,class",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_the_obvious_command_runs_row_for_row(tmp_path, name):
    text, options, time, features = FILES[name]
    path = tmp_path / name
    path.write_text(text)
    done = CliRunner().invoke(main, ["run", str(path), *shlex.split(options)])
    assert done.exit_code == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    numbers = [row["row"] for row in rows if row["row"] is not None]
    assert sorted(numbers) == list(range(N)), done.stderr
    assert "refused" not in done.stderr
    shown = CliRunner().invoke(main, ["look", str(path), *shlex.split(options)])
    assert shown.exit_code == 0, shown.stderr
    command = shown.stdout.splitlines()[-1].removeprefix("to run it: streamddcrp ")
    parts = shlex.split(command)
    named = dict(zip(parts[2::2], parts[3::2], strict=True))
    assert named.get("--features", named.get("--text")) == features
    assert named.get("--time") == (time and time.replace(" + ", ","))
    again = CliRunner().invoke(main, parts)  # what `look` says is what `run` does
    assert again.stdout == done.stdout


def test_what_look_says_is_read_in_ten_seconds(tmp_path):
    path = tmp_path / "rows.csv"
    same = [f"{at(i, 60)},{i},7,{X[i]} kW,{('on', 'off')[i % 2]},{'red'}" for i in range(N)]
    path.write_text("\n".join(["when,total,fixed,load,pump,colour", *same]))
    done = CliRunner().invoke(main, ["look", str(path)])
    assert done.exit_code == 0, done.stderr
    said = done.stdout
    assert len(said.splitlines()) < 25
    for line in (
        "when: from 2021-03-13 00:00, every 1 min", "left out: colour (words)",
        "load: kW behind the numbers", "300 rows", "warning: fixed: constant, or empty",
        "warning: total: a trend", "--features total,fixed,load,pump",
    ):  # fmt: skip
        assert line in said
