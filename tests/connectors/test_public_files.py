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
from streamddcrp_connectors.options import names_out
from streamddcrp_connectors.run.columns import Columns, refusals
from streamddcrp_connectors.run.joining import joined
from streamddcrp_connectors.run.sources import open_source
from tests.connectors import imitations

N = 300
rng = np.random.default_rng(11)
X = rng.normal(np.repeat([10.0, 20.0], N // 2), 1.0).round(3)
Y = rng.normal(np.repeat([30.0, 60.0], N // 2), 2.0).round(3)


def at(i, step):
    return datetime(2021, 3, 13) + timedelta(seconds=step * i)


def comma(x):
    return f"{x:.1f}".replace(".", ",")


def comma3(x):
    return f"{x:.3f}".replace(".", ",")


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
        "", "c1 + c2", "c3,c4,c5",
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
        "--time date", "date", "close",
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
    "train_FD001.txt": (lines([], lambda i: f"1 {i + 1} -0.0007 {X[i]} {Y[i]}  "), "", None, "c1,c3,c4,c5"),
    "2004.02.12.10.32.39": (lines([], lambda i: f"{X[i]}\t{Y[i]}"), "", None, "c1,c2"),
    "samples.csv": (
        lines(["'Elapsed time','ECG','ECG'", "'hh:mm:ss.mmm','mV','mV'"],
              lambda i: f"'{i // 60:7d}:{i % 60:02d}.000',{X[i]},{Y[i]}"),
        "", None, "ECG,ECG_2",
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
        "", "MESS_DATUM", "QN_9,TT_TU",
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
        "", "datetime", "00060",
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
        lines(["Country/Region,Lat,Long,1/22/20,1/23/20"], lambda i: f"Land{i},{X[i]},{Y[i]},{i * i},{i * i + 1}"),
        "", None, "Lat,Long,1/22/20,1/23/20",
    ),
    "sales.csv": (
        lines(["Report: Sales by day", "", "Date,Units,Revenue"],
              lambda i: f'{at(i, 86400):%Y-%m-%d},{X[i]:.0f},"{Y[i] * 100:,.2f}"', tail=['Total,4500,"1,350,000.00"']),
        "", "Date", "Units,Revenue",
    ),
    "wincc.csv": (
        lines(['"VarName";"TimeString";"VarValue";"Validity"'],
              lambda i: f'"Druck";"{at(i, 10):%d.%m.%Y %H:%M:%S}";{comma(X[i])};1', tail=['"$RT_COUNT$";300;;']),
        "", "TimeString", "VarValue,Validity",
    ),
    "pvgis.csv": (
        lines(["Latitude (decimal degrees):\t45.000", "Radiation database:\tPVGIS-SARAH2", "", "time,P,G(i)"],
              lambda i: f"{at(i, 3600):%Y%m%d:%H}10,{Y[i]},{X[i]}",
              tail=["", "P: PV system power (W)", "G(i): irradiance (W/m2)", "", "PVGIS (c) European Union, 2001-2021"]),
        "", "time", "P,G(i)",
    ),
    "nina34.data": (
        lines(["   1726      2025"], lambda i: f"{1726 + i:5d} {X[i]:8.2f} {Y[i]:8.2f}",
              tail=["  -99.99", "  NINA34 Anomaly from ERSSTv5", "  https://psl.noaa.gov/data/"]),
        "", "c1", "c2,c3",
    ),
    "HWiNFO_LOG.CSV": (
        lines(["Date,Time,CPU [C],Clock [MHz],"], lambda i: f"{at(i, 2):%-d.%-m.%Y,%-H:%M:%S}.{i:03d},{X[i]},{Y[i]},",
              tail=["Date,Time,CPU [C],Clock [MHz],", ",,CPU [#0]: AMD Ryzen,CPU [#0]: AMD Ryzen,"]),
        "", "Date + Time", "CPU [C],Clock [MHz]",
    ),
    "trackLog.csv": (
        lines(["GPS Time, Longitude, Engine RPM(rpm)"],
              lambda i: f"{at(i, 1):%a %b %d %H:%M:%S} GMT+01:00 2021,{X[i]},{'-' if i < 3 else Y[i]}"
                        + "\nGPS Time, Longitude, Engine RPM(rpm)" * (i == 150)),
        "", "GPS Time", "Longitude,Engine RPM(rpm)",
    ),
    "sma.csv": (
        lines(["sep=;", "Version CSV1|Tool SE|Decimalpoint comma", "", ";SN: 21;SN: 21", "dd.MM.yyyy HH:mm;kWh;kW"],
              lambda i: f"{at(i, 900):%d.%m.%Y %H:%M};{comma(Y[i])};{comma(X[i])}"),
        "", "dd.MM.yyyy HH:mm", "SN: 21 kWh,SN: 21 kW",
    ),
    "weatherlink.txt": (
        lines(["\t\tTemp\tHi\tWind", "Date\tTime\tOut\tTemp\tDir"],
              lambda i: f"{at(i, 1800):%d/%m/%y\t%I:%M}{'ap'[at(i, 1800).hour > 11]}\t{X[i]}\t{'---' if i % 13 == 5 else Y[i]}\tNNE"),
        "", "Date + Time", "Temp Out,Hi Temp",
    ),
    "100.annotations.txt": (
        lines(["      Time   Sample #  Type  Sub Chan  Num\tAux"],
              lambda i: f"    {i // 60}:{i % 60:02d}.0   {i * 290 + int(X[i]):9d}     {'NA'[i % 7 > 5]}    0    1    2" + "\t(N" * (i == 0)),
        "", None, "c2,c4,c5,c6",
    ),
    "provisional.txt": (
        lines(["Heathrow (London Airport)", "   yyyy  mm   tmax    sun", "              degC    hours"],
              lambda i: f"   {1948 + i // 12}  {i % 12 + 1:2d}   {X[i]:4.1f}    {Y[i]:4.1f}" + "  Provisional" * (i > 285)),
        "", "yyyy + mm", "tmax,sun",
    ),
    "API_GDP.csv": (
        lines(['"Data Source","World Development Indicators",', "", '"Country Name","Indicator Code","1960","1961","1962",'],
              lambda i: f'"Land, {i}","NY.GDP","{Y[i]}","","{X[i]}",'),
        "", None, "1960,1961,1962",
    ),
    "load.csv": (
        lines(['"Time (CET/CEST)","Forecast [MW] - BZN|DE-LU","Actual [MW] - BZN|DE-LU"'],
              lambda i: f'"{at(i, 900):%d.%m.%Y %H:%M} - {at(i + 1, 900):%d.%m.%Y %H:%M}","{Y[i]}","{"n/e" if i > 290 else X[i]}"'),
        "", "Time (CET/CEST)", "Forecast [MW] - BZN|DE-LU,Actual [MW] - BZN|DE-LU",
    ),
    "put_back.csv": (
        lines(["when,x"], lambda i: f"2021-10-31 {max(i - 60 * (i > 170), 0) // 60:02d}:{i % 60:02d},{X[i]}"),
        "", "when", "x",
    ),
    "fmi.csv": (
        lines(["Year,m,d,Time,Time zone,Air temperature (degC)"], lambda i: f"{at(i, 3600):%Y,%-m,%-d,%H:%M},UTC,{X[i]}"),
        "", "Year + m + d + Time", "Air temperature (degC)",
    ),
    "cu.data.1.AllItems": (
        lines(["series_id        \tyear\tperiod\t       value"],
              lambda i: f"CUSR0000SA0      \t{1970 + i // 12}\tM{i % 12 + 1:02d}\t{Y[i]:12.3f}"),
        "", "year + period", "value",
    ),
    "eventlog.csv": (
        lines(["Level,Date and Time,Source,Event ID"],
              lambda i: f'Information,{at(i, 60):%m/%d/%Y %I:%M:%S %p},Kernel,{X[i]:.0f},"It changed to {i}.\n\nReason: {i % 2}"', order=range(N)[::-1]),
        "", "Date and Time", "Event ID",
    ),
    "hashtags.csv": (
        lines(["# exported, by hand", "text,likes"], lambda i: f"{'#' * (i % 5 == 0)}{('sun', 'rain')[i % 2]} again {i % 7},{Y[i]:.0f}"),
        "--text text", None, "text",
    ),
    "orders.csv": (lines(["order,amount,x"], lambda i: f"#A{i},{Y[i]},{X[i]}"), "", None, "amount,x"),
    "commented.csv": (
        lines(["when,x,y", "# UTC,m,s"], lambda i: f"{at(i, 60)},{X[i]},{Y[i]}" + f"\n#{at(i, 61)},0,0" * (i % 50 == 7)),
        "", "when", "x,y",
    ),
    "fluke.csv": (
        lines(["Fluke 287,,,", "Start,2021-03-13,,", "", "Reading,Sample,Start Time,Duration"],
              lambda i: f"{i + 1},{X[i]} VDC,{at(i, 2):%m/%d/%Y %I:%M:%S %p},0:00:02.0"),
        "", "Start Time", "Sample",
    ),
    "picoscope.csv": (
        lines(["Time,Channel A,Note", "", "(ms),(mV),(-)"], lambda i: f"{i / 10 - 50:.6f},{X[i]},{i % 2}"), "", None, "Time,Channel A,Note",
    ),
    "underlined.txt": (
        lines(["Sensor log", "ID\tTime\tValue", "--\t----\t-----"], lambda i: f"{i + 1}\t{at(i, 60)}\t{X[i]}", tail=["", "300 records exported"]),
        "", "Time", "Value",
    ),
    "WISDM_raw.txt": (
        lines([], lambda i: f"{33 + i // 150},{('Jogging', 'Walking')[i // 150]},{X[i]},{Y[i]};"), "", None, "c1,c3,c4",
    ),
    "cpu.lp": (
        lines([], lambda i: f"cpu,host=server\\ 1 user={X[i]},system={int(Y[i])}i,up=true,note=\"a, b = c\" {1615593600 + i}000000000"),
        "", "time", "user,system,up",
    ),
    "ratings.dat": (
        lines([], lambda i: f"{i // 50}::{1193 + i * 7 % 300}::{i % 5 + 1}::{978300760 + i * 10}"), "--time c4", "c4", "c1,c2,c3",
    ),
    "tweets.jsonl": (
        lines([], lambda i: json.dumps({"created_at": f"{at(i, 2):%a %b %d %H:%M:%S +0000 %Y}", "text": f"hello {i % 3}\nworld"})),
        "--time created_at --text text", "created_at", "text",
    ),
    "ride.gpx": (
        lines(['<?xml version="1.0"?>', '<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>'],
              lambda i: f'<trkpt lat="{X[i]}" lon="8.5"><ele>{Y[i]}</ele><time>{at(i, 1):%Y-%m-%dT%H:%M:%SZ}</time>'
                        f"<extensions><hr>{i % 9}</hr></extensions></trkpt>", tail=["</trkseg></trk></gpx>"]),
        "", "time", "lat,lon,ele,extensions.hr",
    ),
    "a1a": (
        lines([], lambda i: f"{('-1', '+1')[i % 2]} 1:{X[i]} 3:{Y[i]}" + " 7:1" * (i % 3 == 0)),
        "", None, "label,x1,x2,x3,x4,x5,x6,x7",
    ),
    "rigol.csv": (
        lines(["X,CH1,CH2,Start,Increment,", "Sequence,Volt,Volt,-6.0e-03,1.0e-05"], lambda i: f"{i},{X[i]},{Y[i]},,"),
        "", None, "CH1,CH2,Start,Increment",
    ),
    "keysight.csv": (
        lines(["x-axis,1,2", "second,Volt,Volt"], lambda i: f"{i * 1e-6:+.6E},{X[i]:+.6E},{Y[i]:+.6E}"), "", None, "x-axis,1,2",
    ),
    "nsrdb.csv": (
        lines(["Source,Location ID,City,Latitude,Longitude,DHI Units,Time Zone", "NSRDB,145809,-,40.57,-105.1,w/m2,-7",
               "Year,Month,Day,Hour,Minute,DHI,Temperature"], lambda i: f"{at(i, 1800):%Y,%-m,%-d,%-H,%-M},{X[i]},{Y[i]}"),
        "", "Year + Month + Day + Hour + Minute", "DHI,Temperature",
    ),
    "denver.epw": (
        lines(["LOCATION,Denver,CO,39.83,-104.65,-7.0", "HOLIDAYS,No,0,0,0", "COMMENTS 2, --", "DATA PERIODS,1,1,Data,Sunday, 1/ 1,12/31"],
              lambda i: f"{at(i, 3600):%Y,%-m,%-d},{i % 24 + 1},{X[i]},{Y[i]}"),
        "", "c1 + c2 + c3 + c4", "c5,c6",
    ),
    "AEMO_DISPATCH.CSV": (
        lines(["C,NEMP.WORLD,DISPATCHIS,AEMO,2021/03/13,1", "I,DISPATCH,4,SETTLEMENTDATE,REGIONID,TOTALDEMAND"],
              lambda i: f'D,DISPATCH,4,"{at(i, 300):%Y/%m/%d %H:%M:%S}",NSW1,{X[i]}', tail=["C,END OF REPORT,303"]),
        "--time SETTLEMENTDATE", "SETTLEMENTDATE", "4,TOTALDEMAND",
    ),
    "stooq.txt": (
        lines(["<TICKER>,<DATE>,<TIME>,<OPEN>,<VOL>"], lambda i: f"AAPL.US,{at(i, 300):%Y%m%d,%H%M%S},{X[i]},{Y[i]:.0f}"),
        "", "<DATE> + <TIME>", "<OPEN>,<VOL>",
    ),
    "meteostat.csv": (lines([], lambda i: f"{at(i, 3600):%Y-%m-%d},{i % 24},{X[i]},{Y[i]}"), "", "c1 + c2", "c3,c4"),
    "person_activity.txt": (
        lines([], lambda i: f"A01,010-000-024,{at(i, 1):%d.%m.%Y %H:%M:%S}:{i:03d},{X[i]},walking"), "--time c3", "c3", "c4",
    ),
    "comsol.txt": (
        lines(["% Model:       pump.mph", "% Description: Pressure, Temperature", "% t            p (Pa)         T (K)"],
              lambda i: f"{i / 10:<14.6g} {X[i]:<14.8g} {Y[i]:<14.8g}"),
        "", None, "t,p (Pa),T (K)",
    ),
    "u_ex210313.log": (
        lines(["#Software: IIS", "#Fields: date time cs-method s-port time-taken"], lambda i: f"{at(i, 3):%Y-%m-%d %H:%M:%S} GET 443 {Y[i]:.0f}"),
        "", "date + time", "s-port,time-taken",
    ),
    "printed.txt": (
        lines([f"{'flow':>28} {'level':>9} mode"], lambda i: f"{at(i, 3600)} {X[i]:8.3f} {Y[i]:9.3f} {('on', 'off')[i % 2]:>4}"),
        "", "c1 + c2", "flow,level,mode",
    ),
    "spectrum.txt": (
        lines(["Data from FLAME-S Node", "", "Date: Sat Mar 13 10:00:00 CET 2021", *[f"Setting {c}: on" for c in "abcdefgh"], ">>>>>Begin<<<<<"],
              lambda i: f"{340 + i * 0.38:.3f}\t{X[i]:.2f}"),
        "", None, "c1,c2",
    ),
    "logcat.txt": (
        lines([], lambda i: f"{at(i, 7):%m-%d %H:%M:%S}.{i:03d}  1234  {i % 9} {'DI'[i % 2]} Wifi: scan done {i % 7}"), "--text text", "time", "text",
    ),
    "hdfs.log": (lines([], lambda i: f"{at(i, 5):%y%m%d %H%M%S} {i % 30} INFO dfs.DataNode: block {i % 3}"), "--text text --time time", "time", "text"),
    "spark.log": (lines([], lambda i: f"{at(i, 5):%y/%m/%d %H:%M:%S} INFO Executor: task {i % 3}"), "--text text --time time", "time", "text"),
    "polar.csv": (
        lines(["Name,Sport,Date,Start time,Distance (km)", "Jane,RUNNING,13-03-2021,10:00:00,0.9", "Sample rate,Time,HR (bpm),Speed (km/h),Altitude (m)"],
              lambda i: f"{'1' * (i == 0)},00:{i // 60:02d}:{i % 60:02d},{Y[i]:.0f},{X[i]},240"),
        "", None, "Sample rate,HR (bpm),Speed (km/h),Altitude (m)",
    ),
    "benchlink.csv": (
        lines(["Acquisition Date:,13.03.2021,,", "Instrument:,34970A,,", "Total Scans:,300,,", "", "Scan,Time,101 <TEMP> (C),102 (VDC)"],
              lambda i: f"{i + 1},{at(i, 10):%m/%d/%Y %H:%M:%S}:{i:03d},{X[i]},{Y[i]}"),
        "", "Time", "101 <TEMP> (C),102 (VDC)",
    ),
    "kibana.csv": (
        lines(['"@timestamp",load'], lambda i: f'"{at(i, 60):%b %d, %Y @ %H:%M:%S}.000","{X[i]}"') + "\x1a", "", "@timestamp", "load",
    ),
    "k_index.json": (json.dumps([["time_tag", "Kp"], *([f"{at(i, 10800)}.000", f"{X[i]}"] for i in range(N))]), "", "time_tag", "Kp"),
    "rosbag.csv": (lines(["%time,field.seq,field.x"], lambda i: f"{1615593600 + i}000000000,{i},{X[i]}"), "--time %time", "time", "field.x"),
}  # fmt: skip


def read(path, options):
    """Read a file as the command would, in two ways of cutting; return its columns and rows."""
    parts = shlex.split(options)
    named = dict(zip(parts[::2], parts[1::2], strict=True))
    columns = Columns.of(named.get("--time"), None, None, named.get("--text"))
    tables = []
    with closing(open_source(path, columns)) as source:
        for source._batch_rows in (1000, 41):
            found = [refusals(batch) for batch, _ in source.read_after(None)]
            assert not any(refused for _, refused in found)
            tables.append(joined([batch for batch, _ in found]).to_pandas())
    assert tables[0].equals(tables[1])
    return source.columns, tables[0]


@pytest.mark.parametrize("name", FILES)
def test_columns_and_rows_are_those_of_the_file(tmp_path, name):
    text, options, time, features = FILES[name]
    path = tmp_path / name
    path.write_text(text)
    columns, rows = read(path, options)
    assert len(rows) == N
    assert " + ".join(columns.times) == (time or "")
    if not columns.text or "--text" in options:
        assert names_out(columns.features) == features


@pytest.mark.parametrize("name", imitations.FILES)
def test_rows_and_times_are_those_of_the_file(tmp_path, name):
    text, options, times, features, *n_rows = imitations.FILES[name]
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    columns, rows = read(path, options)
    assert len(rows) == (n_rows or [N])[0]
    if isinstance(features, int):
        assert len(columns.features) == features
    elif features != "?":
        assert ",".join(columns.features) == features
    if times is None:
        assert columns.time is None
    elif times != "?":
        found = rows[columns.time].dt.tz_localize(None).sort_values()
        late = found.to_numpy() - np.array(sorted(times), "datetime64[ns]")
        assert (np.abs(late) <= np.timedelta64(2, "us")).all()  # seconds in a float


def test_dates_with_points_tell_a_decimal_comma(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text(lines(["Zeit\tDruck"], lambda i: f"{at(i, 60):%d.%m.%Y %H:%M}\t{comma3(X[i])}"))
    with closing(open_source(path, Columns())) as source:
        table = pa.Table.from_batches([batch for batch, _ in source.read_after(None)])
    assert table["Druck"].to_pylist() == X.tolist()


@pytest.mark.parametrize(
    ("mark", "missing"), [(-9999, True), (-99.9, True), (999, False), (-100, False)]
)
def test_a_lone_sentinel_is_missing_where_it_is_far_from_all(tmp_path, mark, missing):
    path = tmp_path / "rows.csv"
    path.write_text(
        lines(
            ["x,y"],
            lambda i: f"{mark if i == 77 else X[i]},{mark if i == 77 else X[i] - 160 * Y[i]}",
        )
    )
    with closing(open_source(path, Columns())) as source:
        table = pa.Table.from_batches([batch for batch, _ in source.read_after(None)])
    assert table["x"].null_count == missing
    assert table["y"].null_count == 0  # from -10,000 on
    assert table.num_rows == N


@pytest.mark.parametrize(("mark", "n_missing"), [(999, 200), (290, 0)])
def test_99_is_missing_beside_longer_marks_alone(tmp_path, mark, n_missing):
    path = tmp_path / "buoy.csv"
    path.write_text(
        lines(
            ["x,y"],
            lambda i: f"{99.0 if (i + 1) % 3 else X[i]},{mark if (i + 1) % 3 else X[i] * 9}",
        )
    )
    with closing(open_source(path, Columns())) as source:
        table = pa.Table.from_batches([batch for batch, _ in source.read_after(None)])
    assert table["x"].null_count == table["y"].null_count == n_missing


def test_years_of_logs_come_first_where_that_is_nearer(tmp_path):
    for stamps, form in (([f"17/06/{d:02d} 10:00:00" for d in range(1, 10)], "%y/%m/%d"),
                         ([f"{d:02d}/06/17 10:00:00" for d in range(1, 10)], "%d/%m/%y")):  # fmt: skip
        path = tmp_path / "a.log"
        path.write_text("\n".join(f"{stamp} INFO said" for stamp in stamps))
        with closing(open_source(path, Columns())) as source:
            found = pa.Table.from_batches([batch for batch, _ in source.read_after(None)])
        wanted = [datetime.strptime(stamp, f"{form} %H:%M:%S") for stamp in stamps]
        assert found["time"].cast(pa.timestamp("us")).to_pylist() == wanted


def test_what_look_says_is_read_in_ten_seconds(tmp_path):
    path = tmp_path / "rows.csv"
    same = [
        f"{at(i, 60)},{i * 3 // 2},7,{X[i]} kW,{('on', 'off')[i % 2]},{'red'}" for i in range(N)
    ]
    path.write_text("\n".join(["when,total,fixed,load,pump,colour", *same]))
    done = CliRunner().invoke(main, ["look", str(path)])
    assert done.exit_code == 0, done.stderr
    said = done.stdout
    assert len(said.splitlines()) < 25
    for line in (
        "when: from 2021-03-13 00:00, every 1 min", "left out: colour (words)",
        "load: kW behind the numbers", "300 rows", "warning: fixed: constant, or empty",
        "warning: total: only grows", "--features total,fixed,load,pump",
    ):  # fmt: skip
        assert line in said


def test_a_table_of_words_alone_is_one_of_texts(tmp_path):
    """Of its columns of words, the one with the longest texts; beside numbers it is only named."""
    path = tmp_path / "news.csv"
    said = [f"{who} {what} the market in {where} today" for who in ("Oil", "Gold", "Corn", "Tin")
            for what in ("lifts", "sinks", "calms") for where in ("Rome", "Oslo", "Lima")]  # fmt: skip
    lines = [f"{at(i, 3600)},wire,{text}" for i, text in enumerate(said)]
    path.write_text("\n".join(["when,source,title", *lines]))
    with closing(open_source(path, Columns())) as source:
        assert (source.columns.text, source.columns.names[-1]) == (True, "title")
        assert sum(batch.num_rows for batch, _ in source.read_after(None)) == len(said)
    path.write_text(
        "\n".join(["when,source,title,n", *(f"{s},{i % 7}" for i, s in enumerate(lines))])
    )
    with closing(open_source(path, Columns())) as source:
        assert source.columns.features == ("n",)
        assert "left out: source (words), title (texts: --text title)" in source.understood


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


def test_what_stands_below_a_table_is_left_out_whatever_the_batches(tmp_path, caplog):
    path = tmp_path / "rows.csv"
    rows = [f"{at(i, 60)},{X[i]},red" for i in range(60)]
    below = ["-99", "Total,800,", ",,", "Source: the pump"]
    for tail, n_left in ((below, 60), ([*below, "-99,1"], None), (below * 9, None)):
        path.write_text("\n".join(["when,x,colour", *rows, *tail]) + "\n")
        for batch_rows in (1, 7, 58, 1000):
            with closing(open_source(path, Columns(), batch_rows=batch_rows)) as source:
                found = [(batch.num_rows, at["row"]) for batch, at in source.read_after(None)]
            assert sum(n for n, _ in found) == found[-1][1]
            assert (found[-1][1] == 60) == (n_left == 60)
    assert "lines below the table left out: 3" in caplog.text


def test_a_total_amid_the_rows_is_refused(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(
        "\n".join(
            ["when,x", *(f"{at(i, 60)},{X[i]}" for i in range(60)), "Total,9", f"{at(60, 60)},7"]
        )
    )
    done = CliRunner().invoke(main, ["run", str(path)])
    assert done.exit_code == 2
    assert "row 60: column 'when' must be a number or a time stamp" in done.stderr


def test_a_line_that_lacks_its_end_is_refused(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(
        "\n".join(["when,x,y", *(f"{at(i, 60)},{X[i]},1" for i in range(60)), "2021-03"])
    )
    done = CliRunner().invoke(main, ["run", str(path)])
    assert done.exit_code == 2
    assert "row 60: 1 cells where the header names 3 columns" in done.stderr


@pytest.mark.parametrize(
    "name",
    [
        "yfinance.csv", "modbus.csv", "query_range.json", "bulk.ndjson", "HR.csv", "track.nmea",
        "PRSA_data.csv", "BTC-USD Historical Data.csv", "sales.csv", "hdfs.log",
    ],
)  # fmt: skip
def test_look_says_of_a_file_what_run_does(tmp_path, name):
    text, options, *_ = (FILES | imitations.FILES)[name]
    path = tmp_path / name
    path.write_text(text)
    parts = [str(path), *shlex.split(options)]
    shown = CliRunner().invoke(main, ["look", *parts])
    assert shown.exit_code == 0, shown.stderr
    command = shown.stdout.splitlines()[-1].removeprefix("to run it: streamddcrp ")
    done = [CliRunner().invoke(main, each) for each in (["run", *parts], shlex.split(command))]
    assert done[0].exit_code == 0
    assert done[0].stdout == done[1].stdout
    rows = [json.loads(line)["row"] for line in done[0].stdout.splitlines()]
    n_rows = len(read(path, options)[1])
    assert sorted(row for row in rows if row is not None) == list(range(n_rows)), done[0].stderr


@pytest.mark.parametrize(
    ("row", "features"),
    [
        ("{i}0,{x}", "b"), ("{i}0.5,{x}", "a,b"), ("{i}.0,{x}", "a,b"), ("{i},red", "a"),
        ("{i},{i}0", "a,b"), ("1{i:03d},{x}", "b"),
    ],
)  # fmt: skip
def test_whole_numbers_in_equal_steps_count_the_rows(tmp_path, row, features):
    path = tmp_path / "rows.csv"
    path.write_text(lines(["a,b"], lambda i: row.format(i=i, x=X[i])))
    assert ",".join(read(path, "")[0].features) == features


@pytest.mark.parametrize(("often", "n_refused"), [(4, 0), (150, 2)])
def test_cells_that_rows_often_lack_are_missing_and_a_line_that_was_cut_is_refused(
    tmp_path, often, n_refused
):
    path = tmp_path / "rows.csv"
    path.write_text(
        lines(["when,x,y"], lambda i: f"{at(i, 60)},{X[i]}" + f",{Y[i]}" * (i % often != 3))
    )
    with closing(open_source(path, Columns(), batch_rows=7)) as source:
        found = [refusals(batch) for batch, _ in source.read_after(None)]
    assert sum(len(refused) for _, refused in found) == n_refused
    rows = joined([batch for batch, _ in found])
    assert rows["x"].null_count == n_refused
    lacking = [i for i, y in enumerate(rows["y"].to_pylist()) if y is None]
    assert lacking == [*range(3, N, often)]


def test_a_word_for_the_date_is_no_row_but_a_damaged_date_is(tmp_path):
    path = tmp_path / "rows.csv"
    rows = [f"{at(i, 86400):%m/%d/%Y},{X[i]},{Y[i]}" for i in range(60)]
    for first, n_refused in (("Transform:,5,5", 0), ("13/32/2021,5,5", 1)):
        path.write_text("\n".join(["sasdate,a,b", first, *rows]) + "\n")
        with closing(open_source(path, Columns("sasdate"))) as source:
            found = [refusals(batch) for batch, _ in source.read_after(None)]
        assert sum(len(batch) for batch, _ in found) == 60 + n_refused
        assert sum(len(refused) for _, refused in found) == n_refused


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
