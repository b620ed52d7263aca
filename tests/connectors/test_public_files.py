# ruff: noqa: E501 -- a table
"""Files in the manner of well-known public data sets run at the obvious command, row for row."""

import json
import shlex
from contextlib import closing
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from streamddcrp_connectors.cli import main
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.sources import open_source

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
        "--time dteday", "dteday + hr", "season,temp,cnt",
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
    "SeoulBikeData.csv": (
        lines(["Date,Rented Bike Count,Hour,Humidity(%),Functioning Day"],
              lambda i: f"{at(i, 3600):%d/%m/%Y},{Y[i]:.0f},{i % 24},{X[i]},{('Yes', 'No')[i % 50 == 9]}"),
        "", "Date + Hour", "Rented Bike Count,Humidity(%),Functioning Day",
    ),
    "Online Retail.csv": (
        lines(["InvoiceNo,Description,Quantity,InvoiceDate,UnitPrice"],
              lambda i: f"{'C' * (i % 70 == 9)}{536365 + i},'HEART, \"RED\"',{X[i]:.0f},{at(i, 300):%-m/%-d/%Y %-H:%M},{Y[i]}"
              .replace("'HEART, \"RED\"'", '"HEART, ""RED"""')),
        "", "InvoiceDate", "Quantity,UnitPrice",
    ),
    "pageviews-20210101-000000": (
        lines([], lambda i: f"en {('Main_Page', 'Cat', 'Dog_(film)')[i % 3]} {Y[i]:.0f} 0"), "", None, "c3,c4",
    ),
    "influx annotated.csv": (
        lines(["#group,false,false,true,false,false,true", "#datatype,string,long,dateTime,dateTime,double,string",
               "#default,mean,,,,,", ",result,table,_start,_time,_value,_field"],
              lambda i: f",,0,2021-03-13T00:00:00Z,{at(i, 10):%Y-%m-%dT%H:%M:%SZ},{X[i]},temp"),
        "", "_time", "result,table,_value",
    ),
    "write.table.txt": (
        lines(['"time" "x" "group"'],
              lambda i: f'"{i + 1}" "{at(i, 3600)}" {"NA" if i % 11 == 0 else X[i]} "{("a", "b")[i % 2]} day"'),
        "", "time", "x",
    ),
    "Series-170221.csv": (
        lines(['"CDID","D7BT"', '"PreUnit",""', '"Title","CPI"', '"Next release","24 March"'],
              lambda i: f'"{1930 + i // 4} Q{i % 4 + 1}","{X[i]}"'),
        "", "Title", "CPI",
    ),
    "estat_prc.tsv": (
        lines(["freq,unit,geo\\TIME_PERIOD\t2010 \t2011 "],
              lambda i: f"A,PC,R{i}\t{X[i]} \t{': ' if i % 5 == 0 else f'{Y[i]} ' + 'b' * (i % 9 == 1)}"),
        "", None, "2010,2011",
    ),
    "transactions.csv": (
        lines(["Date,Payee,Amount,Balance"],
              lambda i: f'{at(i, 86400):%m/%d/%Y},"SHOP {i}, NY","{("(", "")[i % 2]}{X[i]:,.2f}{(")", "")[i % 2]}","${1000 + Y[i]:,.2f}"'),
        "", "Date", "Amount,Balance",
    ),
    "LCD_station.csv": (
        lines(['"DATE","REPORT_TYPE","HourlyDryBulbTemperature","HourlyWindDirection"'],
              lambda i: f'"{at(i, 3600):%Y-%m-%dT%H:%M:%S}","FM-15","{X[i]}{"s" * (i % 30 == 4)}","{"VRB" if i % 6 == 0 else f"{i % 36}0"}"'),
        "", "DATE", "HourlyDryBulbTemperature,HourlyWindDirection",
    ),
    "produkt_tu_stunde.txt": (
        lines(["STATIONS_ID;MESS_DATUM;QN_9;TT_TU;eor"],
              lambda i: f"        433;{at(i, 3600):%Y%m%d%H};    3;{X[i] if i % 40 else -999:6.1f};eor"),
        "", "MESS_DATUM", "STATIONS_ID,QN_9,TT_TU",
    ),
    "uurgeg_260.txt": (
        lines(["BRON: KNMI", "", "YYYYMMDD = date (YYYY=year,MM=month,DD=day);", "", "# STN,YYYYMMDD,   HH,   FH", ""],
              lambda i: f"  260,{at(i, 3600):%Y%m%d},{i % 24 + 1:5d},{'     ' if i % 7 == 0 else X[i]}"),
        "", "YYYYMMDD + HH", "STN,FH",
    ),
    "heathrowdata.txt": (
        lines(["Heathrow (London Airport)", "Location 507800E 176700N, Lat 51.479 Lon -0.449, 25m amsl",
               "Missing data (more than 2 days missing in month) is marked by  ---.",
               "   yyyy  mm   tmax    rain     sun", "              degC      mm   hours"],
              lambda i: f"   {1948 + i // 12}  {i % 12 + 1:2d}   {X[i]:4.1f}{'*' * (i % 30 == 4)}   {Y[i]:5.1f}    {'---' if i < 60 else X[i]}"),
        "", "yyyy + mm", "tmax,rain,sun",
    ),
    "usgs_iv.rdb": (
        lines(["# retrieved: 2021-03-13", "#", "agency_cd\tsite_no\tdatetime\ttz_cd\t00060", "5s\t15s\t20d\t6s\t14n"],
              lambda i: f"USGS\t01646500\t{at(i, 900):%Y-%m-%d %H:%M}\tEST\t{'Ice' if i % 50 == 2 else Y[i]}"),
        "", "datetime", "site_no,00060",
    ),
    "hobo.csv": (
        "\ufeff" + lines(['"Plot Title: 10356"', '"#","Date Time, GMT-05:00","Temp, °C (LGR S/N: 10356)","End Of File"'],
              lambda i: f'{i + 1},{at(i, 600):%m/%d/%y %I:%M:%S %p},{X[i]},{"Logged" * (i == N - 1)}'),
        "", "Date Time, GMT-05:00", '"Temp, °C (LGR S/N: 10356)"',
    ),
    "run.lvm": (
        lines(["LabVIEW Measurement\t", "Separator\tTab", "***End_of_Header***\t", "\t", "Channels\t2\t\t",
               "Samples\t300\t300\t", "***End_of_Header***\t\t\t", "X_Value\tVoltage\tCurrent\tComment"],
              lambda i: f"{i / 100:.6f}\t{X[i]}\t{Y[i]}\t"),
        "", None, "X_Value,Voltage,Current,Comment",
    ),
    "sar.txt": (
        lines(["Linux 5.4.0 (host) \t03/13/21 \t_x86_64_\t(4 CPU)", "", "12:00:01 AM     CPU     %user     %idle"],
              lambda i: f"{at(i, 60):%I:%M:%S %p}     all     {X[i]}     {Y[i]}"),
        "", None, "%user,%idle",
    ),
    "psql.txt": (
        lines(["         when        |  temp  | load ", "---------------------+--------+------"],
              lambda i: f" {at(i, 60)} | {X[i]:6.2f} | {Y[i]:4.1f}", tail=["(300 rows)", ""]),
        "", "when", "temp,load",
    ),
    "wireshark.csv": (
        lines(['"No.","Time","Source","Length","Info"'],
              lambda i: f'"{i + 1}","{i * 0.013:.6f}","10.0.0.{i % 5}","{Y[i]:.0f}","443 > 51000 [ACK], Seq={i}"'),
        "", None, "Time,Length",
    ),
    "asos.csv": (
        lines(["#DEBUG: Format Typ    -> comma", "station,valid,tmpf,p01i"],
              lambda i: f"AMW,{at(i, 3600):%Y-%m-%d %H:%M},{'M' if i % 5 == 0 else X[i]},{'T' if i % 30 == 0 else Y[i]}"),
        "", "valid", "tmpf,p01i",
    ),
    "feeds.csv": (
        lines(["created_at,entry_id,field1"], lambda i: f"{at(i, 15)} UTC,{i + 1},{X[i]}"), "", "created_at", "field1",
    ),
    "time_series_covid19.csv": (
        lines(["Country/Region,Lat,Long,1/22/20,1/23/20"], lambda i: f"Land{i},{X[i]},{Y[i]},{i},{i + 1}"),
        "", None, "Lat,Long,1/22/20,1/23/20",
    ),
    "a1a": (
        lines([], lambda i: f"{('-1', '+1')[i % 2]} 1:{X[i]} 3:{Y[i]}" + " 7:1" * (i % 3 == 0)),
        "", None, "label,x1,x2,x3,x4,x5,x6,x7",
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


def test_multiples_of_a_unit_are_in_the_usual_one(tmp_path):
    path = tmp_path / "rows.csv"
    many = [f"{at(i, 60)},{X[i]}{('K', 'M')[i % 2]},{X[i]} {('kW', 'kW', 'MW')[i % 3]},{X[i]:.0f}%"
            for i in range(N)]  # fmt: skip
    path.write_text("\n".join(["when,views,power,soc", *many, f"{at(N, 60)},2.5,4000 W,7 %"]))
    with closing(open_source(path, Columns())) as source:
        table = pa.Table.from_batches([batch for batch, _ in source.read_after(None)])
    scale = {"views": np.tile([1.0, 1e3], N // 2), "power": np.tile([1.0, 1.0, 1e3], N // 3)}
    for name, factors in scale.items():
        np.testing.assert_allclose(table[name][:N].to_numpy(), X * factors, rtol=1e-12)
    assert table["soc"][:3].to_pylist() == [round(x) for x in X[:3].tolist()]
    assert table.slice(N).to_pylist()[0] | {"when": 0} == {
        "when": 0, "views": 2.5e-3, "power": 4.0, "soc": 7.0,
    }  # fmt: skip


def test_a_slip_in_the_first_row_is_no_header(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["a,b", "1,abc", *(f"{x},{y}" for x, y in zip(X, Y, strict=True))]))
    done = CliRunner().invoke(main, ["run", str(path)])
    assert done.exit_code == 2
    assert "row 0: column 'b' must be a number" in done.stderr


def test_a_log_without_years_goes_over_new_year(tmp_path):
    start = datetime(datetime.now().year - 1, 12, 30)
    stamps = [start + timedelta(minutes=30 * i) for i in range(N)]
    path = tmp_path / "messages"
    path.write_text("\n".join(f"{s:%b %e %H:%M:%S} host sshd[{s.hour}]: hello" for s in stamps))
    for batch_rows in (7, 1000):
        with closing(open_source(path, Columns(), batch_rows=batch_rows)) as source:
            assert "no year" in source.understood[0]
            found = pa.Table.from_batches([batch for batch, _ in source.read_after(None)])
        assert found["time"].cast(pa.timestamp("us")).to_pylist() == stamps
        assert found["text"][0].as_py() == "host sshd[0]: hello"
