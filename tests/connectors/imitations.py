# ruff: noqa: E501 -- a table
"""Files in the manner of public data sets, of instruments, plants, services and exports.

Of each: its text or bytes, the options of the obvious command, the times of its rows (none: it has
none, "?": any), the features or how many they are, and the number of rows if it is not `N`.
"""

import bz2
import gzip
import io
import json
import lzma
import tarfile
from calendar import monthrange
from datetime import datetime, timedelta

import numpy as np

N = 300
rng = np.random.default_rng(29)
X = rng.normal(np.repeat([10.0, 20.0], N // 2), 1.0).round(3)
Y = rng.normal(np.repeat([30.0, 60.0], N // 2), 2.0).round(3)
J = json.dumps
MONATE = ["Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September",
          "Oktober", "November", "Dezember"]  # fmt: skip


def at(i, step):
    return datetime(2021, 3, 13) + timedelta(seconds=step * i)


def T(step):  # noqa: N802 -- short
    return [at(i, step) for i in range(N)]


def iso(i, step=60):
    return f"{at(i, step):%Y-%m-%dT%H:%M:%SZ}"


def c1(x):
    return f"{x:.1f}".replace(".", ",")


def c3(x):
    return f"{x:.3f}".replace(".", ",")


def lines(head, row, *, order=range(N), tail=()):
    return "\n".join([*head, *(row(i) for i in order), *tail]) + "\n"


def tgz(name, text):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text.encode()))
    return packed.getvalue()


FILES = {
    "RollingSystemDemand.csv": (lines(["HDR,ROLLING SYSTEM DEMAND"], lambda i: f"VD,{at(i, 300):%Y%m%d%H%M%S},{Y[i] * 1000:.0f}", tail=["FTR,300"]), "", T(300), "c3"),
    "DoS_dataset.csv": (lines([], lambda i: f"{1615593600 + i / 1000:.6f},0316,{8 if i % 4 else 2},05,a1,{'f8,09,21,21,00,fa,R' if i % 4 else 'R'}"), "", [datetime(2021, 3, 13) + timedelta(milliseconds=i) for i in range(N)], "?"),
    "short.lvm": (lines(["LabVIEW Measurement\t", "Separator\tTab", "***End_of_Header***\t", "\t", "Channels\t2\t\t", "Samples\t300\t300\t", "Date\t2021/03/01\t2021/03/01\t", "***End_of_Header***\t\t\t", "X_Value\tVoltage\tCurrent\tComment"], lambda i: f"{i / 100:.6f}\t{X[i]}\t{Y[i]}"), "", None, "X_Value,Voltage,Current"),
    "journal_bytes.json": ("".join(J({"__REALTIME_TIMESTAMP": str(1615593600000000 + i * 10**6), "PRIORITY": "6", "MESSAGE": [72, 105, 33] if i % 9 == 0 else f"usb {i % 3} found"}) + "\n" for i in range(N)), "--text MESSAGE", T(1), "MESSAGE"),
    "SYSLOG01.CSV": (lines(["Date;Time;Register 40001;Status"], lambda i: f"{at(i % 60, 10).replace(day=1):01/03/2021;%H:%M:%S};{c1(X[i])};OK", order=range(60)), "--time Date,Time", [datetime(2021, 3, 1) + timedelta(seconds=10 * i) for i in range(60)], 1, 60),
    "sar_all.txt": (lines(["Linux 5.4.0 (host) \t03/13/21 \t_x86_64_\t(4 CPU)", "", "00:00:01        CPU     %user     %idle"], lambda i: f"{at(i, 60):%H:%M:%S}        all     {X[i]}     {Y[i]}", tail=["Average:        all     15.00     45.00"]), "", None, "%user,%idle"),
    "API_GDP.csv": (lines(['"Data Source","World Development Indicators",', "", '"Country Name","Indicator Name","1968","1969",'], lambda i: f'"Land {i}","GDP (current US$)","{X[i] * 5e10}","{Y[i] * 3e10}",'), "", None, "1968,1969"),
    "yfinance_named.csv": (lines(["Price,Close,High,Volume", "Ticker,AAPL,AAPL,AAPL", "Date,,,"], lambda i: f"{at(i, 86400):%Y-%m-%d},{X[i]},{Y[i]},{Y[i] * 1e5:.0f}"), "--time Date", T(86400), 3),
    "home-assistant.jsonl": ("".join(J({"last_updated_ts": 1615593600.25 + 30 * i, "state": X[i]}) + "\n" for i in range(N)), "--time last_updated_ts", [datetime(2021, 3, 13) + timedelta(seconds=30 * i + 0.25) for i in range(N)], 1),
    "HR.csv": (lines(["1615593600.000000", "1.000000"], lambda i: f"{60 + X[i]:.2f}"), "", T(1), 1),
    "ACC.csv": (lines(["1615593600.000000, 1615593600.000000, 1615593600.000000", "32.000000, 32.000000, 32.000000"], lambda i: f"{-X[i]:.0f},{Y[i]:.0f},{i % 7}"), "", [at(0, 0) + timedelta(seconds=i / 32) for i in range(N)], 3),
    "demanddata.csv": (lines(["SETTLEMENT_DATE,SETTLEMENT_PERIOD,ND"], lambda i: f"{at(i, 1800):%d-%b-%Y},{at(i, 1800).hour * 2 + at(i, 1800).minute // 30 + 1},{X[i]}").upper(), "", T(1800), "ND"),
    "USW00094728.dly": ("".join(f"USW00094728{year}{month:02d}{element}" + "".join(f"{X[day] * 10 if day < monthrange(year, month)[1] else -9999:5.0f}  7" for day in range(31)) + "\n" for year in (2020, 2021) for month in range(1, 13) for element in ("TMAX", "TMIN")), "", [datetime(2020, 1, 1) + timedelta(days=i) for i in range(731)], 2, 731),
    "inbox.mbox": ("".join(f"From a@x.org {at(i, 61):%a %b %d %H:%M:%S %Y}\nFrom: a@x.org\nSubject: pump {i % 3}\nDate: {at(i, 61):%a, %d %b %Y %H:%M:%S} +0000\n\nit has stopped\n>From here\n\n" for i in range(N)), "", T(61), "text"),
    "46026h2021.txt": (lines(["#YY  MM DD hh mm WSPD WVHT  MWD", "#yr  mo dy hr mn m/s     m degT"], lambda i: f"{at(i, 600):%Y %m %d %H %M} {X[i]:4.1f} {99 if i % 3 else Y[i] / 10:5.2f} {999 if i % 3 else 290:3d}"), "", T(600), 3),
    "cast.cnv": (lines(["* Sea-Bird SBE 9 Data File:", "* FileName = C:\\DATA\\A.hex", "** Ship: RV Polar", "# nquan = 3", "# name 0 = prDM: Pressure, Digiquartz [db]", "# name 1 = t090C: Temperature [ITS-90, deg C]", "# name 2 = sal00: Salinity [PSU]", "# interval = seconds: 0.0416667", "# start_time = Mar 13 2021 10:00:00", "# bad_flag = -9.990e-29", "*END*"],
   lambda i: f"{i * 0.5:11.3f}{X[i]:11.4f}{Y[i]:11.4f}"), "", None, 3),
    "BBK01.WT1010.csv": ("\ufeff" + lines([',BBEX3.D.USD,BBEX3.D.USD_FLAGS', ',"Euro foreign exchange, daily",', 'unit,USD (US-Dollar),', 'unit multiplier,one,', 'last update,2021-03-12 16:00:01,'],
   lambda i: f"{at(i, 86400):%Y-%m-%d},{'.' if i % 7 > 4 else X[i]},{'No value available' if i % 7 > 4 else ''}"), "", T(86400), 1),
    "ecb_data.csv": (lines(['"DATE","TIME PERIOD","US dollar/Euro (EXR.D.USD.EUR.SP00.A)"'], lambda i: f'"{at(i, 86400):%Y-%m-%d}","{at(i, 86400):%d %b %Y}","{X[i]}"'), "", T(86400), 1),
    "fredmd.csv": (lines(["sasdate,RPI,W875RX1", "Transform:,5,5"], lambda i: f"{(i + 20) % 12 + 1}/1/{1959 + (i + 20) // 12},{X[i]},{Y[i]}", tail=[",,"]), "", [datetime(1959 + (i + 20) // 12, (i + 20) % 12 + 1, 1) for i in range(N)], 2),
    "nama_linear.csv": (lines(["DATAFLOW,LAST UPDATE,freq,unit,geo,TIME_PERIOD,OBS_VALUE,OBS_FLAG"], lambda i: f"ESTAT:PRC(1.0),15/03/21 11:00:00,M,PC,DE,{1996 + i // 12}-{i % 12 + 1:02d},{X[i]},{'p' if i > 290 else ''}"), "", [datetime(1996 + i // 12, i % 12 + 1, 1) for i in range(N)], "OBS_VALUE"),
    "029070-99999-2021": (lines([], lambda i: f"{at(i, 3600):%Y %m %d %H} {X[i] * 10:5.0f} {Y[i]:5.0f} {10132 + i % 30:5d} {i % 36 * 10:5d} {i % 9 * 10:5d} {-9999 if i % 3 else 2:5d} -9999 -9999"), "", "?", "?"),
    "2021.csv": (lines([], lambda i: f"ASN00015643,{at(i, 86400):%Y%m%d},TMAX,{X[i] * 10:.0f},,,a,{'' if i % 2 else '0700'}"), "", T(86400), "?"),
    "query.csv": (lines(["time,latitude,longitude,depth,mag,magType,nst,gap,dmin,rms,net,id,updated,place,type"], lambda i: f'{iso(i, 999)[:-1]}.{i:03d}Z,{X[i]},-{Y[i]},{i % 9}.5,{X[i] / 5:.2f},ml,{i % 7},,,0.2,ak,ak0{i},{iso(i, 1000)[:-1]}.040Z,"{i} km W of Town, Alaska",earthquake', order=range(N)[::-1]), "", "?", "?"),
    "ceda_station.csv": (lines(["Conventions,G,BADC-CSV,1", "title,G,uk-hourly-weather-obs", "location,G,51.479 -0.449", "long_name,ob_time,date and time", "type,ob_time,char", "long_name,air_temperature,air temperature,degC", "type,air_temperature,float", "missing_value,G,NA", "data", "ob_time,id,air_temperature,wind_speed"], lambda i: f"{at(i, 3600)},3772,{X[i]},{'NA' if i % 11 == 0 else Y[i]}", tail=["end data"]), "", T(3600), "?"),
    "cams_radiation.csv": (lines(["# Coding: utf-8", "# Title: CAMS Radiation Service", "# Latitude (positive North, ISO 19115): 48.5", "# Time reference: Universal time (UT)", "# Summarization (integration) period: 0 year 0 month 0 day 0 h 15 min 0 s", "# Columns:", "# 1. Observation period (ISO 8601)", "# 2. TOA. Irradiation on horizontal plane", "#", "# Observation period;TOA;Clear sky GHI"], lambda i: f"{at(i, 900):%Y-%m-%dT%H:%M:%S}.0/{at(i + 1, 900):%Y-%m-%dT%H:%M:%S}.0;{X[i]:.4f};{Y[i]:.4f}"), "", T(900), "TOA,Clear sky GHI"),
    "intel_data.txt": (lines([], lambda i: f"{at(i, 31):%Y-%m-%d %H:%M:%S}.{i * 577 % 900000 + 100000} {i + 2} 1 {X[i]:.4f} {Y[i]:.4f} 11.04 2.03397"), "", [at(i, 31) + timedelta(microseconds=i * 577 % 900000 + 100000) for i in range(N)], "?"),
    "132539.txt": (lines(["Time,Parameter,Value", "00:00,RecordID,132539", "00:00,Age,54"], lambda i: f"{i // 7:02d}:{i % 7 * 8:02d},{('HR', 'Temp')[i % 2]},{X[i]}"), "", "?", "Value", N + 2),
    "p000001.psv": (lines(["HR|O2Sat|Temp|ICULOS|SepsisLabel"], lambda i: f"{'NaN' if i < 2 else X[i]}|{Y[i]}|{'NaN' if i % 4 else 36.5}|{i + 1}|0"), "", None, "?"),
    "mitdb_100.csv": (lines(["'sample #','MLII','V5'"], lambda i: f"{i},{900 + X[i]:.0f},{1000 + Y[i]:.0f}"), "", None, "?"),
    "SWaT_Normal.csv": (lines([",P1,P1,P2,", " Timestamp,FIT101,LIT101, MV101,Normal/Attack"], lambda i: f" {at(i, 1):%d/%m/%Y %I:%M:%S %p},{X[i]},{Y[i]},2,Normal"), "--time Timestamp", T(1), 3),
    "labeled_anomalies.csv": (lines(["chan_id,spacecraft,anomaly_sequences,class,num_values"], lambda i: f'P-{i},SMAP,"[[{i}, {i + 9}], [4536, 4844]]","[contextual, point]",{Y[i] * 100:.0f}'), "", None, "num_values"),
    "A4Benchmark-TS1.csv": (lines(["timestamps,value,anomaly,changepoint,trend,noise"], lambda i: f"{1416726000 + 3600 * i},{X[i]},0,0,{i * 3.3:.1f},{Y[i]}"), "", [datetime(2014, 11, 23, 7) + timedelta(hours=i) for i in range(N)], 5),
    "BTCUSDT-1m-2025-01.csv": (lines([], lambda i: f"{1735689600000000 + i * 60000000},{Y[i]:.8f},{Y[i] + 1:.8f},{Y[i] - 1:.8f},{Y[i]:.8f},{X[i]:.5f},{1735689659999999 + i * 60000000},{X[i] * Y[i]:.8f},{i % 90},{X[i] / 2:.5f},{X[i]:.8f},0"), "", [datetime(2025, 1, 1) + timedelta(minutes=i) for i in range(N)], "?"),
    "yfinance.csv": (lines(["Price,Close,High,Volume", "Ticker,AAPL,AAPL,AAPL", "Date,,,"], lambda i: f"{at(i, 86400):%Y-%m-%d},{X[i]},{Y[i]},{Y[i] * 1e5:.0f}"), "", T(86400), 3),
    "export.xml": ('<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE HealthData [\n<!ELEMENT HealthData (ExportDate,Me,(Record|Workout)*)>\n]>\n' + lines(['<HealthData locale="en_DE">', ' <ExportDate value="2021-03-20 10:00:00 +0100"/>', ' <Me HKCharacteristicTypeIdentifierDateOfBirth="1980-01-01"/>'], lambda i: f' <Record type="HKQuantityTypeIdentifierHeartRate" sourceName="Watch" unit="count/min" creationDate="{at(i, 300)} +0000" startDate="{at(i, 300)} +0000" endDate="{at(i, 300)} +0000" value="{X[i]}"/>', tail=["</HealthData>"]), "--time startDate", T(300), "value"),
    "strava_activities.csv": (lines(["Activity ID,Activity Date,Activity Name,Activity Type,Elapsed Time,Distance,Max Heart Rate"], lambda i: f'{4000000 + i * 77},"{at(i, 80000):%b %-d, %Y, %-I:%M:%S %p}",Morning Ride,Ride,{Y[i] * 60:.0f},{X[i]},{"" if i % 3 else 150}'), "", T(80000), "?"),
    "heart_rate-2021-03-13.json": (J([{"dateTime": f"{at(i, 5):%m/%d/%y %H:%M:%S}", "value": {"bpm": round(60 + X[i]), "confidence": i % 4}} for i in range(N)], indent=1), "", T(5), "value.bpm,value.confidence"),
    "Records.json": (J({"locations": [{"timestampMs": str(1615593600000 + i * 60000), "latitudeE7": int(X[i] * 1e7), "longitudeE7": int(Y[i] * 1e7), "accuracy": i % 30, **({"activity": [{"timestampMs": "1615593600000", "activity": [{"type": "STILL", "confidence": 100}]}]} if i % 5 == 0 else {})} for i in range(N)]}, indent=2), "", T(60), "?"),
    "Activities.csv": (lines(["Activity Type,Date,Favorite,Title,Distance,Calories,Time,Avg HR,Aerobic TE"], lambda i: f'Running,{at(i, 86399)},false,"Zurich, easy",{X[i]},"{1000 + Y[i]:,.0f}",00:{i % 60:02d}:12,{"--" if i % 9 == 0 else 140},{X[i] / 5:.1f}', order=range(N)[::-1]), "", T(86399), "?"),
    "history.csv": (lines(["entity_id,state,last_changed"], lambda i: f"sensor.outdoor_temperature,{'unavailable' if i == 33 else 'unknown' if i == 77 else X[i]},{iso(i, 300)[:-1]}.123Z"), "", "?", "state"),
    "influx_two.csv": ("".join("#group,false,false,true,false,false\r\n#datatype,string,long,dateTime:RFC3339,dateTime:RFC3339,double\r\n#default,_result,,,,\r\n,result,table,_start,_time,_value\r\n" + "".join(f",,{k},2021-03-12T00:00:00Z,{iso(i, 10)},{X[i]}\r\n" for i in range(k * 150, k * 150 + 150)) + "\r\n" for k in (0, 1)), "", T(10), "?"),
    "query_range.json": (J({"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {"__name__": "up", "instance": f"host{k}:9100"}, "values": [[1615593600 + 15 * i, str(X[i])] for i in range(150)]} for k in (0, 1)]}}), "", "?", "?"),
    "grafana_long.csv": (lines(['sep=;', '"Series";"Time";"Value"'], lambda i: f'"load";"{at(i, 60):%Y-%m-%dT%H:%M:%S}+00:00";{X[i]}'), "", T(60), "Value"),
    "bulk.ndjson": (lines([], lambda i: J({"index": {"_index": "metrics", "_id": f"{i}"}}) + "\n" + J({"@timestamp": iso(i), "host": {"name": "a"}, "cpu": {"pct": X[i]}})), "", T(60), "cpu.pct"),
    "elasticdump.json": (lines([], lambda i: J({"_index": "logs", "_id": f"q{i}", "_score": 1, "_source": {"@timestamp": iso(i), "bytes": int(Y[i]), "load": X[i]}})), "", T(60), "?"),
    "syslog5424.log": (lines([], lambda i: f"<34>1 {iso(i, 7)[:-1]}.003Z mymachine su - ID47 - 'su root' failed for user{i % 3} on /dev/pts/8"), "", "?", "text"),
    "nginx_error.log": (lines([], lambda i: f'{at(i, 9):%Y/%m/%d %H:%M:%S} [error] 1234#0: *{i} open() "/var/www/{i % 4}" failed (2: No such file or directory), client: 10.0.0.{i % 5}, server: _'), "", T(9), "text"),
    "access_combined": (lines([], lambda i: f'10.0.{i % 3}.{i % 7} - - [{at(i, 9):%d/%b/%Y:%H:%M:%S} +0000] "GET /p{i % 4} HTTP/1.1" {(200, 404)[i % 9 == 0]} {Y[i] * 100:.0f} "-" "Mozilla/5.0 (X11; Linux)"'), "", "?", "?"),
    "journal.json": (lines([], lambda i: J({"__CURSOR": f"s={i}", "__REALTIME_TIMESTAMP": str(1615593600000000 + i * 7000000), "__MONOTONIC_TIMESTAMP": str(9000000 + i * 7000000), "PRIORITY": "6", "MESSAGE": f"Started job {i % 4}.", "_PID": str(i % 50), **({"CODE_LINE": "12"} if i % 6 == 0 else {})})), "--time __REALTIME_TIMESTAMP --text MESSAGE", T(7), "MESSAGE"),
    "typeperf.csv": (lines(['"(PDH-CSV 4.0) (W. Europe Standard Time)(-60)","\\\\HOST\\Processor(_Total)\\% Processor Time","\\\\HOST\\Memory\\Available MBytes"', '"03/12/2021 23:59:59.123"," ","812"'], lambda i: f'"{at(i, 1):%m/%d/%Y %H:%M:%S}.123","{X[i]}","{Y[i]}"', tail=[]), "", "?", 2, N + 1),
    "jira.csv": (lines(["Summary,Issue key,Issue id,Status,Created,Comment,Comment"], lambda i: f'"Pump {i % 5} fails, again",OPS-{i},{10000 + i * 3},Open,{at(i, 3600):%d/%b/%y %-I:%M %p},"{at(i, 3600):%d/%b/%y};jane;It\nsaid ""no""",', order=range(N)[::-1]), "--time Created --text Summary", T(3600), "Summary"),
    "2021-03-13.json": (J([{"client_msg_id": f"a{i}", "type": "message", "text": f"hello <@U{i % 3}> again", "user": f"U{i % 4}", "ts": f"{1615593600 + 20 * i}.000200", **({"reactions": [{"name": "x", "users": ["U1"], "count": 1}]} if i % 9 == 0 else {})} for i in range(N)], indent=4), "--time ts --text text", [at(i, 20) + timedelta(microseconds=200) for i in range(N)], "text"),
    "tweets.js": ("window.YTD.tweets.part0 = " + J([{"tweet": {"id": str(10 ** 18 + i), "full_text": f"so {i % 5} it goes", "created_at": f"{at(i, 600):%a %b %d %H:%M:%S} +0000 2021", "favorite_count": str(i % 9)}} for i in range(N)], indent=2), "--text tweet.full_text --time tweet.created_at", T(600), "tweet.full_text"),
    "arxiv-metadata-oai-snapshot.json": (lines([], lambda i: J({"id": f"0704.{i:04d}", "submitter": None if i % 40 == 0 else "A. Author", "title": f"On  {i}", "abstract": f"  We show\n that {i % 7} holds.\n", "versions": [{"version": "v1", "created": "Mon, 2 Apr 2007 19:18:42 GMT"}], "update_date": f"{at((i * 77) % N, 86400):%Y-%m-%d}", "authors_parsed": [["B", "C", ""]]})), "--text abstract --time update_date", T(86400), "abstract"),
    "reuters.csv": (lines(["newid,date,topics,title,body"], lambda i: f'{i + 1},{at(i, 400):%d-%b-%Y %H:%M:%S}.79,"grain, wheat","BAHIA {i % 5}","Showers continued\nthroughout the week ""{i}"""'.replace("Mar", "MAR")), "--text body --time date", [t + timedelta(milliseconds=790) for t in T(400)], "body"),
    "Posts.xml": ("\ufeff" + lines(['<?xml version="1.0" encoding="utf-8"?>', "<posts>"], lambda i: f'  <row Id="{i + 1}" PostTypeId="{1 + i % 2}" CreationDate="{at(i, 600):%Y-%m-%dT%H:%M:%S}.123" Score="{i % 7}" Body="&lt;p&gt;How to {i % 4}?&lt;/p&gt;&#xA;" {"" if i % 2 else "Title=&quot;x&quot;".replace("&quot;", chr(34))} OwnerUserId="{i % 9}" />', tail=["</posts>"]), "--text Body --time CreationDate", "?", "Body"),
    "spss.csv": (lines(["id,wave,age,income,sat"], lambda i: f"{i + 1},{at(i, 86400):%d-%b-%Y},{X[i]:.2f},{'#NULL!' if i % 6 == 0 else Y[i]},{' ' if i % 8 == 0 else i % 5}"), "", T(86400), "?"),
    "airpassengers_r.txt": (lines(["     Jan Feb Mar Apr"], lambda i: f"{1700 + i} {X[i]:3.0f} {Y[i]:3.0f} {X[i]:3.0f} {Y[i]:3.0f}"), "", "?", "?"),
    "eCO2mix_RTE.xls": (lines(["Périmètre\tNature\tDate\tHeures\tConsommation\tNucléaire\t"], lambda i: f"France\tDonnées définitives\t{at(i, 900):%d/%m/%Y}\t{at(i, 900):%H:%M}\t{'' if i % 2 else f'{Y[i]:.0f}'}\t{'ND' if i > 290 else '' if i % 2 else f'{X[i]:.0f}'}\t", tail=["RTE ne pourra être tenu responsable de l'usage qui pourrait être fait des données mises à disposition, ni en cas de prévisions imprécises."]).encode("latin-1"), "", T(900), 2),
    "notes.md": (lines(["| time                | temp | load |", "|:--------------------|-----:|:----:|"], lambda i: f"| {at(i, 60)} | {X[i]} | {Y[i]} |"), "", T(60), "temp,load"),
    "mysql.txt": (lines(["+---------------------+--------+-------+", "| created_at          | temp   | level |", "+---------------------+--------+-------+"], lambda i: f"| {at(i, 60)} | {X[i]:6.2f} | {'NULL' if i % 8 == 0 else f'{Y[i]:.2f}':>5} |", tail=["+---------------------+--------+-------+", "300 rows in set (0.00 sec)", ""]), "", T(60), "temp,level"),
    "fortran.out": (lines([], lambda i: f"{i:5d}{X[i]:8.3f}{-100 - Y[i]:8.3f}{Y[i]:8.3f}"), "", "?", "?"),
    "weather.arff": (lines(["% made by hand", "@RELATION weather", "", "@ATTRIBUTE when DATE \"yyyy-MM-dd HH:mm:ss\"", "@ATTRIBUTE 'out temp' REAL", "@ATTRIBUTE sky {sunny, rainy}", "@ATTRIBUTE load NUMERIC", "", "@DATA"], lambda i: f"\"{at(i, 600)}\",{'?' if i % 9 == 0 else X[i]},{('sunny', 'rainy')[i % 2]},{Y[i]}"), "", T(600), "out temp,load"),
    "vali.txt": (lines([], lambda i: f"{i % 3} qid:{i // 20} 1:{X[i]} 2:{Y[i]} 3:0.5 #docid = GX{i}"), "", None, "?"),
    "octave.mat": (lines(["# Created by Octave 6.1.0, Sat Mar 13 10:00:00 2021 CET <me@here>", "# name: A", "# type: matrix", "# rows: 300", "# columns: 3"], lambda i: f" {i} {X[i]} {Y[i]}", tail=["", ""]), "", None, 2),
    "tek0001.csv": (lines([], lambda i: (("Record Length,2.500000e+03,", "Sample Interval,4.000000e-06,", "Trigger Point,1.25e+03,", "Source,CH1,", "Vertical Units,V,")[i] if i < 5 else ",,") + f",{i * 4e-6 - 0.005:.9f},{X[i]:9.5f},"), "", None, "?"),
    "tdms_export.txt": (lines(["Root Name\tTitle\tAuthor\tDate/Time\tGroups\tDescription", "pump\t\tJane\t03/13/2021\t1\t", "", "Group\tChannels\tDescription\tx", "Untitled\t2\t\t", "", "Time*\tVoltage_0\tVoltage_1"], lambda i: f"{at(i, 1):%m/%d/%Y %I:%M:%S %p}\t{X[i]:.6f}\t{Y[i]:.6f}"), "", T(1), "Voltage_0,Voltage_1"),
    "plc_log.csv": (lines(["Date,Time,Tank1.Level,Tank1.Valve,Batch"], lambda i: f"{at(i, 5):%-m/%-d/%Y},{at(i, 5):%-I:%M:%S %p},{X[i]},{i % 2},B-{i // 90}"), "", T(5), "Tank1.Level,Tank1.Valve"),
    "modbus.csv": (lines(["timestamp;40001;40002;40003"], lambda i: f"{at(i, 1)};{X[i] * 10:.0f};{Y[i]:.0f};{i % 3}"), "--time timestamp", T(1), "40001,40002,40003"),
    "opcua.csv": (lines(["NodeId,SourceTimestamp,Value,StatusCode"], lambda i: f"ns=2;s=Line{i % 2}.Temp,{iso(i, 1)[:-1]}.{i:03d}Z,{X[i]},Good (0x00000000)"), "", "?", "Value"),
    "scada_wide.csv": (lines(["Timestamp,P1.Value,P1.Quality,T1.Value,T1.Quality"], lambda i: f"{at(i, 10):%d.%m.%Y %H:%M:%S},{X[i]},{('Good', 'Uncertain')[i % 50 == 3]},{'' if i % 50 == 4 else Y[i]},{('Good', 'Bad')[i % 50 == 4]}"), "--time Timestamp", T(10), "P1.Value,T1.Value"),
    "apogee_trend.csv": (lines(['"Key            Name:Suffix                                Trend Definitions Used"', '"Point_1:","AHU1.SAT","","COV","0 minutes"', '"Point_2:","AHU1.RAT","","COV","0 minutes"', '"Time Interval:","15 Minutes"', '"Date Range:","3/13/2021 00:00:00 - 3/14/2021 23:59:59"', '"Report Timings:","All Hours"', '""', '"<>Date","Time","Point_1","Point_2"'], lambda i: f'"{at(i, 900):%-m/%-d/%Y}","{at(i, 900):%H:%M:%S}","{X[i]}","{"No Data" if i % 9 == 4 else Y[i]}"', tail=[' ******************************** End of Report *********************************']), "", T(900), "Point_1,Point_2"),
    "niagara.csv": (lines(["history:/Station/AHU1_SAT", "Timestamp,Trend Flags,Status,Value (°C)"], lambda i: f"{at(i, 900):%d-%b-%y %-I:%M:%S %p} UTC,{{ }},{{ok}},{X[i]}"), "", T(900), "Value (°C)"),
    "candump.log": (lines([], lambda i: f"({1615593600 + i * 0.01:.6f}) can0 {(0x123, 0x2A0)[i % 2]:X}#{i % 256:02X}ADBEEF{'00' * (i % 3)}"), "", "?", "text"),
    "track.nmea": (lines([], lambda i: (f"$GPGGA,{at(i, 1):%H%M%S}.00,4807.{i:03d},N,01131.000,E,1,08,0.9,{X[i] * 10:.1f},M,46.9,M,,*47", f"$GPRMC,{at(i, 1):%H%M%S}.00,A,4807.{i:03d},N,01131.000,E,022.4,084.4,130321,003.1,W*6A")[i % 2]), "", "?", "?"),
    "sensor.tar.gz": (tgz("sensor/data.csv", lines(["time,x,y"], lambda i: f"{at(i, 60)},{X[i]},{Y[i]}")), "", T(60), "x,y"),
    "data.csv.bz2": (bz2.compress(lines(["time;x;y"], lambda i: f"{at(i, 60):%d.%m.%Y %H:%M};{c3(X[i])};{c3(Y[i])}").encode()), "", T(60), "x,y"),
    "sqlite_dump.sql": (lines(["PRAGMA foreign_keys=OFF;", "BEGIN TRANSACTION;", 'CREATE TABLE "readings" (id INTEGER PRIMARY KEY, at TEXT, temp REAL, note TEXT);'], lambda i: f"INSERT INTO readings VALUES({i + 1},'{at(i, 60)}',{X[i]},{'NULL' if i % 3 else chr(39) + 'it''s (ok)' + chr(39)});".replace("it's", "it''s"), tail=["COMMIT;"]), "", T(60), "temp"),
    "mssql.sql": (lines(["USE [plant]", "GO"], lambda i: f"INSERT [dbo].[log] ([id], [at], [temp], [who]) VALUES ({i + 1}, CAST(N'{at(i, 60):%Y-%m-%dT%H:%M:%S}.000' AS DateTime), {X[i]}, N'Jane')" + "\nGO" * (i % 100 == 99)), "", T(60), "temp"),
    "toa5.dat": (lines(['"TOA5","CR1000","CR1000","1234","CR1000.Std.31","CPU:met.CR1","5678","Table1"', '"TIMESTAMP","RECORD","BattV_Min","AirTC_Avg"', '"TS","RN","Volts","Deg C"', '"","","Min","Avg"'], lambda i: f'"{at(i, 600)}",{i},{X[i]},{chr(34) + "NAN" + chr(34) if i % 40 == 3 else Y[i]}'), "", T(600), "BattV_Min,AirTC_Avg"),
    "IBI.csv": (lines(["1615593600.000000, IBI"], lambda i: f"{i * 0.83:.6f},{X[i] / 15:.6f}"), "", "?", 2),
    "jhu.csv": (lines(["Province/State,Country/Region,Lat,Long," + ",".join(f"{at(d, 86400):%-m/%-d/%y}" for d in range(90))], lambda i: f",Land{i},{X[i]},{Y[i]}," + ",".join(str(i + d) for d in range(90))), "", None, "?"),
    "SN_d_tot_V2.0.csv": (lines([], lambda i: f"{at(i, 86400):%Y;%m;%d};{2021 + i / 365:.3f};{X[i]:4.0f};{Y[i] / 10:5.1f};   1;1"), "", "?", "?"),
    "alpha_vantage.json": (J({"Meta Data": {"1. Information": "Daily", "2. Symbol": "IBM"}, "Time Series (Daily)": {f"{at(i, 86400):%Y-%m-%d}": {"1. open": f"{X[i]:.4f}", "5. volume": f"{Y[i] * 1e4:.0f}"} for i in range(N)[::-1]}}, indent=2), "", T(86400), 2),
    "market_chart.json": (J({"prices": [[1615593600000 + 3600000 * i, Y[i]] for i in range(N)], "market_caps": [[1615593600000 + 3600000 * i, X[i] * 1e9] for i in range(N)], "total_volumes": [[1615593600000 + 3600000 * i, X[i]] for i in range(N)]}), "", T(3600), 1),
    "power_daily.json": (J({"type": "Feature", "geometry": {"type": "Point", "coordinates": [8.5, 47.3, 400.0]}, "properties": {"parameter": {"T2M": {f"{at(i, 86400):%Y%m%d}": X[i] for i in range(N)}, "PRECTOTCORR": {f"{at(i, 86400):%Y%m%d}": -999.0 if i > 295 else Y[i] for i in range(N)}}}, "header": {"title": "NASA/POWER", "fill_value": -999.0}}), "", T(86400), "T2M,PRECTOTCORR"),
    "open-meteo.json": (J({"latitude": 52.52, "generationtime_ms": 0.2, "hourly_units": {"time": "iso8601", "temperature_2m": "°C"}, "hourly": {"time": [f"{at(i, 3600):%Y-%m-%dT%H:%M}" for i in range(N)], "temperature_2m": X.tolist(), "rain": [None, *Y.tolist()[1:]]}}), "", T(3600), "temperature_2m,rain"),
    "cloudwatch.json": (J({"Label": "CPUUtilization", "Datapoints": [{"Timestamp": iso(i * 77 % N, 300), "Average": X[i * 77 % N], "Unit": "Percent"} for i in range(N)]}, indent=4), "--time Timestamp", T(300), "Average"),
    "worldbank.json": (J([{"page": 1, "pages": 1, "total": N}, [{"indicator": {"id": "SP.POP", "value": "Population"}, "country": {"id": "CH"}, "date": str(2020 - i), "value": X[i], "obs_status": "", "decimal": 0} for i in range(N)]]), "--time date", "?", "?"),
    "quakes.geojson": (J({"type": "FeatureCollection", "metadata": {"count": N}, "features": [{"type": "Feature", "properties": {"mag": X[i], "place": "x", "time": 1615593600000 + i * 60000, "tz": None}, "geometry": {"type": "Point", "coordinates": [Y[i], 1.0, 5.0]}, "id": f"a{i}"} for i in range(N)][::-1]}), "--time time", T(60), "?"),
    "conn.log": (lines(["#separator \\x09", "#set_separator\t,", "#empty_field\t(empty)", "#unset_field\t-", "#path\tconn", "#open\t2021-03-13-00-00-00", "#fields\tts\tuid\tid.orig_h\tid.orig_p\tproto\tduration\torig_bytes", "#types\ttime\tstring\taddr\tport\tenum\tinterval\tcount"], lambda i: f"{1615593600 + i}.{i:06d}\tC{i}x\t10.0.0.{i % 5}\t{50000 + i * 37 % 999}\ttcp\t{'-' if i % 9 == 0 else X[i]}\t{Y[i]:.0f}", tail=["#close\t2021-03-13-01-00-00"]), "", [at(i, 1) + timedelta(microseconds=i) for i in range(N)], "id.orig_p,duration,orig_bytes"),
    "vmstat.txt": (lines(["procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----", " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st"], lambda i: f" {i % 3}  0      0 {Y[i] * 1000:6.0f} {i % 70 + 200000:6d} 900000    0    0     {i % 5}    12  {X[i] * 10:3.0f}  400  5  1 94  0  0"), "", None, 17),
    "ping.txt": (lines(["PING example.com (93.184.216.34) 56(84) bytes of data."], lambda i: f"64 bytes from 93.184.216.34: icmp_seq={i + 1} ttl=56 time={X[i]:.1f} ms", tail=["", "--- example.com ping statistics ---", "300 packets transmitted, 300 received, 0% packet loss, time 299413ms"]), "", "?", "text", N + 3),
    "app.logfmt": (lines([], lambda i: f'time="{iso(i, 7)}" level=info msg="request done {i % 4}" status=200 duration={X[i]}ms'), "", "?", "?"),
    "WhatsApp Chat.txt": (lines([], lambda i: f"{at(i, 700):%d/%m/%y, %H:%M} - Alice: hello {i % 6} again"), "", [t.replace(second=0) for t in T(700)], "text"),
    "StreamingHistory0.json": (J([{"endTime": f"{at(i, 240):%Y-%m-%d %H:%M}", "artistName": f"A{i % 4}", "trackName": "T", "msPlayed": int(X[i] * 1000)} for i in range(N)], indent=2), "", T(240), "msPlayed"),
    "NetflixViewingHistory.csv": (lines(["Title,Date"], lambda i: f'"The {i % 7}: Season 1: ""Pilot""","{at(i, 86400):%-m/%-d/%y}"', order=range(N)[::-1]), "--text Title --time Date", T(86400), "Title"),
    "umsatz_camt.csv": (lines(['"Auftragskonto";"Buchungstag";"Valutadatum";"Buchungstext";"Verwendungszweck";"Betrag";"Waehrung"'], lambda i: f'"DE12";"{at(i, 86400):%d.%m.%y}";"{at(i, 86400):%d.%m.%y}";"LASTSCHRIFT";"Miete, {i}";"-{c3(X[i])[:-1]}";"EUR"', order=range(N)[::-1]).encode("latin-1"), "", T(86400), "Betrag"),
    "kraken.csv": (lines([], lambda i: f"{1615593600 + 60 * i},{X[i]},{Y[i]},{i % 7}"), "", T(60), "c2,c3,c4"),
    "channel_1.dat": (lines([], lambda i: f"{1303132929 + i} {X[i] * 10:.2f}"), "", [datetime(2011, 4, 18, 13, 22, 9) + timedelta(seconds=i) for i in range(N)], "c2"),
    "subject101.dat": (lines([], lambda i: f"{8.38 + i / 100:.2f} 0 {'NaN' if i % 10 else 104} 30 {X[i]} {-Y[i]} {'NaN' if i == 7 else 0.02}"), "", None, 7),
    "X_train.txt": (lines([], lambda i: f"  {X[i] / 100:.7e} {-Y[i] / 100:.7e} -1.3290514e-001".replace("e-0", "e-00")), "", None, "?"),
    "tbl.ipac": (lines(["\\fixlen = T", "\\ a comment", "|  ra    |  flux  |  name |", "| double | double | char  |", "| deg    | mJy    |       |"], lambda i: f" {X[i]:8.3f} {Y[i]:8.3f}  NGC{i}  "), "", None, "?"),
    "ECG.ts": (lines(["#A comment", "@problemName ECG", "@timeStamps false", "@univariate true", "@classLabel true 1 2", "@data"], lambda i: ",".join(str(round(X[i] + k, 2)) for k in range(8)) + f":{1 + i % 2}"), "", None, "?"),
    "cet.txt": (lines(["Monthly_HadCET_mean.txt", "Base period 1961-1990", "", "Year   Jan   Feb   Annual"], lambda i: f"{1659 + i}  {X[i]:4.1f}  {Y[i]:4.1f}  {-99.9 if i > 297 else X[i]:5.1f}"), "--time Year", "?", "Jan,Feb,Annual"),
    "lcl_smart_meters.csv": (lines(["LCLid,stdorToU,DateTime,KWH/hh (per half hour) "], lambda i: f"MAC00000{2 + i // 100},Std,{at(i % 100, 1800)}.0000000, {'Null' if i == 99 else X[i]} "), "--time DateTime", "?", 1),
    "netatmo.csv": (lines(["Name;Long;Lat;ModuleName;ModuleType", '"Indoor";8.5;47.3;"Room";"NAMain"', 'Timestamp;"Timezone : Europe/Paris";"Temperature";"CO2"'], lambda i: f'{1615593600 + 300 * i};"{at(i, 300):%Y/%m/%d %H:%M:%S}";{X[i]};{Y[i]:.0f}'), "", T(300), "?"),
    "en_climate_hourly.csv": ("\ufeff" + lines(['"Longitude (x)","Latitude (y)","Station Name","Date/Time (LST)","Year","Month","Day","Time (LST)","Temp (°C)","Temp Flag","Wind Dir (10s deg)"'], lambda i: f'"-79.4","43.7","TORONTO","{at(i, 3600):%Y-%m-%d %H:%M}","{at(i, 3600):%Y}","{at(i, 3600):%m}","{at(i, 3600):%d}","{at(i, 3600):%H:%M}","{"" if i == 5 else X[i]}","{"M" * (i == 5)}","{i % 36}"'), "", T(3600), "?"),
    "bom_rain.csv": (lines(["Product code,Bureau of Meteorology station number,Year,Month,Day,Rainfall amount (millimetres),Period over which rainfall was measured (days),Quality"], lambda i: f"IDCJAC0009,066062,{at(i, 86400):%Y,%m,%d},{'' if i % 40 == 0 else X[i]},{1 if X[i] > 10 else ''},Y"), "", T(86400), "?"),
    "ecobee.csv": ("\ufeff" + lines(["#Thermostat identifier: ,4113", "#Thermostat name: ,Home", "#Start date: ,2021-03-13", "#", "#", "Date,Time,System Setting,Current Temp (C),Fan (sec),"], lambda i: f"{at(i, 300):%Y-%m-%d},{at(i, 300):%H:%M:%S},heat,{'' if i > 290 else X[i]},{i * 7 % 300},"), "", T(300), 2),
    "DJI_flight.csv": (lines(["sep=,", "CUSTOM.date [local],CUSTOM.updateTime [local],OSD.flyTime [s],OSD.height [m]"], lambda i: f"3/13/2021,{at(i, 1):%-I:%M:%S}.{i:03d} {at(i, 1):%p},{i / 10},{X[i]}"), "", "?", 2),
    "biologic.mpt": (lines(["EC-Lab ASCII FILE", "Nb header lines : 6", "", "Cyclic Voltammetry", "", "mode\tox/red\ttime/s\tEwe/V\t<I>/mA"], lambda i: f"2\t1\t{i * 0.1:.15E}\t{X[i]:.7E}\t{Y[i]:.15E}"), "", None, 5),
    "sunspots_r.csv": (lines(['"","time","value"'], lambda i: f'"{i + 1}",{1749 + i / 12:.4f},{X[i]}'), "", "?", "value"),
    "clocks.csv": (lines(["date,time,x"], lambda i: f"2021-3-13,{i // 60 // 60}:{i // 60 % 60}:{i % 60},{X[i]}"), "", T(1), "x"),
    "HealthApp.csv": (lines(["time,x"], lambda i: f"{at(i, 1):%Y%m%d-%-H:%-M:%-S}:606,{X[i]}"), "", [t + timedelta(milliseconds=606) for t in T(1)], "x"),
    "MetroPT3.csv": (lines([",timestamp,TP2,COMP"], lambda i: f"{i * 10},{at(i, 10)},{X[i]},{float(i % 7 > 2)}"), "", T(10), "TP2,COMP"),
    "xts.csv": (lines(['"Index","AAPL.Close"'], lambda i: f'{at(i, 86400):%Y-%m-%d},{X[i]}'), "", T(86400), 1),
    "pandas_ms.csv": (lines([",open,close"], lambda i: f"{at(i, 60)}+00:00,{X[i]},{Y[i]}"), "", T(60), "open,close"),
    "de_thousand.csv": ("\ufeff" + "sep=;\r\n" + lines(["Datum;Uhrzeit;Verbrauch [kWh];Preis"], lambda i: f"{at(i, 900):%d.%m.%Y};{at(i, 900):%H:%M};{f'{Y[i] * 100:,.2f}'.translate(str.maketrans(',.', '.,'))};{c3(X[i])[:-1]} €").replace("\n", "\r\n"), "", T(900), 2),
    "fr.csv": (lines(["Horodate;Valeur"], lambda i: f"{at(i, 1800):%Y-%m-%dT%H:%M:%S}+01:00;{f'{Y[i] * 100:,.1f}'.translate(str.maketrans(',.', chr(0x202f) + ','))}"), "", "?", 1),
    "iostat.csv": (lines(["Linux 5.4 (host)"], lambda i: f"{at(i, 1):%m/%d/%Y %I:%M:%S %p};sda;{c3(X[i])};{c3(Y[i])}"), "", T(1), 2),
    "adult.data": (lines([], lambda i: f"{39 + i % 9}, State-gov, {Y[i] * 1000:.0f}, Bachelors, 13, {('Male', '?')[i % 7 == 0]}, {X[i] * 100:.0f}, <=50K"), "", None, 4),
    "iris.data": (lines([], lambda i: f"{X[i]:.1f},{Y[i]:.1f},1.4,0.2,Iris-setosa", tail=["", ""]), "", None, 4),
    "secom.data": (lines([], lambda i: f"{X[i]} {Y[i]} {'NaN' if i % 4 == 0 else 2187.7333} 100 0"), "", None, 5),
    "secom_labels.data": (lines([], lambda i: f'{(-1, 1)[i % 9 == 0]} "{at(i, 3600):%d/%m/%Y %H:%M:%S}"'), "", T(3600), 1),
    "glued_some.txt": (lines(["  i   east   north     up"], lambda i: f"{i:4d}{X[i]:7.2f}{(-100 if i % 3 else -10) - X[i]:8.3f}{-Y[i]:8.3f}"), "", None, "?"),
    "us-counties.csv": (lines(["date,county,state,fips,cases,deaths"], lambda i: f"{at(i // 3, 86400):%Y-%m-%d},{('Cook', 'Orange', 'Maricopa')[i % 3]},{('Illinois', 'California', 'Arizona')[i % 3]},{17031 + i % 3},{Y[i]:.0f},{X[i]:.0f}"), "--time date", [at(i // 3, 86400) for i in range(N)], "fips,cases,deaths"),
    "creditcard.csv": (lines(['"Time","V1","V2","Amount","Class"'], lambda i: f'{i * 2 // 3},-{X[i] / 7:.12f},{Y[i] / 9:.12f},{Y[i]:.2f},"{int(i % 90 == 4)}"'), "", None, 5),
    "winequality-red.csv": (lines(['"fixed acidity";"volatile acidity";"quality"'], lambda i: f"{X[i]:.1f};{Y[i] / 90:.3f};{i % 6 + 3}"), "", None, 3),
    "housing.data": (lines([], lambda i: f" {X[i] / 1000:.5f}  {Y[i]:5.2f}   {Y[i] / 9:5.3f}  0  0.5380  {X[i]:.4f}   1  296.0  {X[i]:.2f}  396.90   4.98"), "", None, "?"),
    "breast-cancer-wisconsin.data": (lines([], lambda i: f"{1000025 + i * 977},{i % 10 + 1},{X[i] / 3:.0f},{'?' if i % 40 == 23 else i % 9 + 1},{Y[i] / 9:.0f},{(2, 4)[i % 3 == 0]}"), "", None, 5),
    "energydata_complete.csv": (lines(['"date","Appliances","lights","T1"'], lambda i: f'"{at(i, 600)}","{Y[i]:.0f}","{i % 4}0","{X[i]}"'), "--time date", T(600), 3),
    "Metro_Interstate_Traffic_Volume.csv.gz": (gzip.compress(lines(["holiday,temp,rain_1h,weather_main,date_time,traffic_volume"], lambda i: f"{('None', 'Labor Day')[i == 40]},{270 + X[i]:.2f},0.0,Clouds,{at(i - (i > 100), 3600)},{Y[i] * 100:.0f}").encode()), "--time date_time", [at(i - (i > 100), 3600) for i in range(N)], "temp,rain_1h,traffic_volume"),
    "batch1.dat": (lines([], lambda i: f"{i % 6 + 1};{Y[i] * 10:.6f} 1:{X[i] * 100:.6f} 2:{X[i]:.6f} 3:{Y[i]:.6f} "), "", None, 3),
    "yellow_tripdata_2021-03.csv": (lines(["VendorID,tpep_pickup_datetime,tpep_dropoff_datetime,passenger_count,trip_distance,store_and_fwd_flag,total_amount"], lambda i: f"{i % 2 + 1},{at(i + (i * 7) % 5, 60)},{at(i + 9, 60)},{'' if i > 280 else 1},{X[i]:.2f},{'' if i > 280 else 'N'},{Y[i]:.2f}"), "--time tpep_pickup_datetime", [at(i + (i * 7) % 5, 60) for i in range(N)], "?"),
    "Crimes.csv": (lines(["ID,Case Number,Date,Block,Arrest,Latitude,Location"], lambda i: f'{10000092 + i * 3},HY{i},{at(i, 3600):%m/%d/%Y %I:%M:%S %p},0{i}XX W ST,{("false", "true")[i % 5 == 0]},{X[i]},"({X[i]}, -87.7)"', order=range(N)[::-1]), "--time Date", T(3600), "?"),
    "training.1600000.processed.noemoticon.csv": (lines([], lambda i: f'"{(0, 4)[i > 150]}","{1467810369 + i * 301}","{at(i, 7):%a %b %d %H:%M:%S} PDT {2021}","NO_QUERY","user{i}","@friend - Awww, caf\u00e9 is {i % 5} ""closed"""').encode("latin-1"), "--text c6", "?", "c6"),
    "reviews_Video_Games_5.json.gz": (gzip.compress(lines([], lambda i: J({"reviewerID": f"A{i}", "asin": "07", "reviewText": f"good game {i % 6}", "overall": float(i % 5 + 1), "helpful": [i % 3, 4], "unixReviewTime": 1615593600 + 86400 * i, "reviewTime": f"{at(i, 86400):%m %-d, %Y}", **({"reviewerName": "B"} if i % 8 else {})})).encode()), "--text reviewText --time unixReviewTime", T(86400), "reviewText"),
    "RC_2021-03.ndjson.xz": (lzma.compress(lines([], lambda i: J({"author": f"u{i}", "body": f"this is {i % 7}\n\n> quoted", "created_utc": 1615593600 + i, "score": i % 30, "edited": False if i % 9 else 1615593999.0, "gildings": {}})).encode()), "--text body --time created_utc", T(1), "body"),
    "2021-03-13-0.json": (lines([], lambda i: J({"id": str(15000 + i * 7), "type": "PushEvent", "actor": {"id": i * 13 % 999, "login": "a"}, "payload": {"push_id": 900 + i * 3, "size": i % 4, "commits": [{"sha": "x", "message": "fix"}]}, "public": True, "created_at": f"{at(i, 1):%Y-%m-%dT%H:%M:%SZ}"})), "--time created_at", T(1), "?"),
    "userid-timestamp-artid.tsv": (lines([], lambda i: f"user_000001\t{at(i, 200):%Y-%m-%dT%H:%M:%SZ}\tf1b1cf71\tDeep Dish\t\tSong {i % 8} live", order=range(N)[::-1]), "--time c2 --text c6", T(200), "c6"),
    "weatherHistory.csv": (lines(["Formatted Date,Summary,Precip Type,Temperature (C),Humidity,Loud Cover,Daily Summary"], lambda i: f"{at(i, 3600)}.000 +0000,Partly Cloudy,{('rain', 'null')[i % 50 == 9]},{X[i]},{Y[i] / 100:.2f},0.0,Partly cloudy all day."), '--time "Formatted Date"', T(3600), 3),
    "WADI_14days_new.csv": (lines(["Row,Date,Time,1_AIT_001_PV,1_LS_001_AL,1_P_006_STATUS"], lambda i: f"{i + 1},{at(i, 1):%-m/%-d/%Y},{at(i, 1):%-I:%M:%S}.000 {at(i, 1):%p},{X[i]},,{i % 2}"), "", T(1), "?"),
    "BATADAL_dataset03.csv": (lines(["DATETIME,L_T1,F_PU1,S_PU1,ATT_FLAG"], lambda i: f"{at(i, 3600):%d/%m/%y %H},{X[i]},{Y[i]},1,0"), "--time DATETIME", T(3600), 4),
    "Monday-WorkingHours.pcap_ISCX.csv": (lines([" Destination Port, Flow Duration,Flow Bytes/s, Flow Packets/s, Label"], lambda i: f"{(80, 443)[i % 2]},{Y[i] * 1000:.0f},{'Infinity' if i % 60 == 7 else 'NaN' if i % 60 == 9 else X[i]},{X[i]},BENIGN"), "", None, 4),
    "capture20110810.binetflow": (lines(["StartTime,Dur,Proto,SrcAddr,Sport,Dir,DstAddr,State,sTos,TotBytes,Label"], lambda i: f"{at(i, 2):%Y/%m/%d %H:%M:%S}.{i:06d},{X[i]:.6f},tcp,10.0.0.{i % 9},{1024 + i * 37 % 5000},  ->,147.32.84.229,S_RA,{'' if i % 30 == 4 else 0},{Y[i]:.0f},flow=Background"), "", [at(i, 2) + timedelta(microseconds=i) for i in range(N)], "?"),
    "BGL_2k.log": (lines([], lambda i: f"- {1117838570 + i} 2005.06.03 R02-M1-N0-C:J12-U11 2005-06-03-15.42.50.{i:06d} R02-M1-N0-C:J12-U11 RAS KERNEL INFO instruction cache parity error {i % 4} corrected"), "", "?", "text"),
    "Apache_2k.log": (lines([], lambda i: f"[{at(i, 9):%a %b %d %H:%M:%S %Y}] [notice] workerEnv.init() ok /etc/httpd/conf/workers{i % 3}.properties"), "", T(9), "text"),
    "d00_te.dat": (lines([], lambda i: f"  {X[i] / 100:.7e}  {Y[i] * 100:.7e}  {-X[i]:.7e}"), "", None, 3),
    "acc_00001.csv": (lines([], lambda i: f"9,39,{39 + i // 60},{i * 39.06 % 1e6:.2f},{X[i] / 100:.3f},-{Y[i] / 100:.3f}"), "", "?", "?"),
    "bearing2.csv": (lines(["t;vib_x;vib_y;temp"], lambda i: f"{c1(i / 10)};{c3(X[i])};{c3(Y[i])};21"), "", "?", "?"),
    "N_seaice_extent_daily_v3.0.csv": (lines(["Year, Month, Day,     Extent,    Missing, Source Data", "YYYY,    MM,  DD, 10^6 sq km, 10^6 sq km, Source data product web sites: https://nsidc.org/data/nsidc-0051 and https://nsidc.org/data/nsidc-0081"], lambda i: f"{at(i, 86400):%Y},    {at(i, 86400):%m},  {at(i, 86400):%d},     {X[i]:.3f},      0.000, ['ftp://sidads/nt_{at(i, 86400):%Y%m%d}_f17_v1.1_n.bin']"), "", T(86400), "?"),
    "CO-OPS_8454000.csv": (lines(["Date Time, Water Level, Sigma, O or I (for verified), F, R, L, Quality "], lambda i: f"{at(i, 360):%Y-%m-%d %H:%M},{X[i]},{Y[i] / 1000:.3f},0,0,0,0,v"), "", T(360), "?"),
    "igra.txt": (lines(["SYNOP AAXX  dump", "", "-----------------------------------------------------------------------------", "   PRES   HGHT   TEMP   DWPT   RELH   MIXR   DRCT   SKNT   THTA   THTE   THTV", "    hPa     m      C      C      %    g/kg    deg   knot     K      K      K ", "-----------------------------------------------------------------------------"], lambda i: f"{1000 - i * 3:7.1f}{100 + i * 30 + i % 7:7.0f}{X[i]:7.1f}{-Y[i]:7.1f}{(i * 7) % 99:7.0f}{5.2:7.2f}{i % 36 * 10:7.0f}{i % 40:7.0f}{280.1:7.1f}{295.0:7.1f}{281.0:7.1f}"), "", None, "PRES,HGHT,TEMP,DWPT,RELH,MIXR,DRCT,SKNT,THTA,THTE,THTV"),
    "MSFT_nasdaq.csv": (lines(["Date,Close/Last,Volume,Open,High,Low"], lambda i: f"{at(i, 86400):%m/%d/%Y},${X[i]:.2f},{Y[i] * 1e6:.0f},${X[i]:.2f},${Y[i]:.2f},${X[i]:.2f}", order=range(N)[::-1]), "", T(86400), "Close/Last,Volume,Open,High,Low"),
    "DAT_ASCII_EURUSD_M1_2021.csv": (lines([], lambda i: f"{at(i, 60):%Y%m%d %H%M%S};{X[i]:.6f};{Y[i]:.6f};{X[i]:.6f};{Y[i]:.6f};0"), "", T(60), "c2,c3,c4,c5,c6"),
    "trends_multiTimeline.csv": (lines(["Category: All categories", "", "Week,flu: (United States),cold: (United States)"], lambda i: f"{at(i, 259200):%Y-%m-%d},{X[i]:.0f},{'<1' if i % 50 == 3 else f'{Y[i]:.0f}'}"), "", T(259200), 2),
    "matomo_ga4.csv": (lines(["# ----------------------------------------", "# All Users", "# Active users", "# 20210313-20220106", "# ----------------------------------------", "", "Nth day,Active users,New users"], lambda i: f"{i:04d},{Y[i]:.0f},{X[i]:.0f}"), "", "?", "?"),
    "purpleair.csv": (lines(["time_stamp,sensor_index,humidity_a,pm2.5_atm"], lambda i: f"{1615593600 + 600 * i},131075,{Y[i]:.0f},{X[i]}"), "--time time_stamp", T(600), "?"),
    "openaq.json": (J({"meta": {"name": "openaq-api", "page": 1, "limit": N, "found": N}, "results": [{"locationId": 1, "parameter": "pm25", "value": X[i], "date": {"utc": f"{at(i, 3600):%Y-%m-%dT%H:%M:%S}+00:00", "local": f"{at(i + 1, 3600):%Y-%m-%dT%H:%M:%S}+01:00"}, "unit": "µg/m³", "coordinates": {"latitude": 52.1, "longitude": 4.3}} for i in range(N)][::-1]}), "--time date.utc", T(3600), "?"),
    "statuspage.html.csv": (lines(["Zeitstempel;Wert Einheit;Status"], lambda i: f"{at(i, 60):%d.%m.%Y %H:%M:%S};{c3(X[i])} m³/h;OK"), "--time Zeitstempel", T(60), 1),
    "co2_mm_mlo.txt": (lines(["# USE OF NOAA GML DATA", "#            decimal       monthly    #days"], lambda i: f"  {1958 + i // 12}  {i % 12 + 1:2d}    {1958 + i / 12:.4f}      {300 + X[i]:.2f}     {-1 if i < 190 else 20 + i % 10:2d}"), "", [datetime(1958 + i // 12, i % 12 + 1, 1) for i in range(N)], 3),
    "Complete_TAVG.txt": (lines(["% Berkeley", "% Year, Month,  Anomaly, Unc.,   Anomaly, Unc.", " "], lambda i: f"  {1750 + i // 12}    {i % 12 + 1:2d}    {X[i]} {Y[i]}   {'NaN    NaN' if i < 9 else '0.1 0.2'}"), "", [datetime(1750 + i // 12, i % 12 + 1, 1) for i in range(N)], "Anomaly,Unc.,Anomaly_2,Unc._2"),
    "Kp_ap.txt": (lines(["#YYY MM DD hh.h   Kp   ap"], lambda i: f"{at(i, 10800):%Y %m %d} {at(i, 10800).hour:04.1f} {X[i]:.3f} {Y[i]:4.0f}"), "", T(10800), 2),
    "temperature_anomaly.csv": (lines(["Year,Jan,J-D"], lambda i: f"{1720 + i},{X[i]},{'***' if i > 295 else Y[i]}"), "", [datetime(1720 + i, 1, 1) for i in range(N)], "Jan,J-D"),
    "factors.csv": (lines(["Written by a program.", "", ",Mkt-RF,SMB"], lambda i: f"{1926 + i // 12}{i % 12 + 1:02d},{X[i]:8.2f},{Y[i]:8.2f}"), "", [datetime(1926 + i // 12, i % 12 + 1, 1) for i in range(N)], "Mkt-RF,SMB"),
    "heartrate_seconds_merged.csv": (lines(["Id,Time,Value"], lambda i: f"{2022484408 + i // 150 * 7},{at(i % 150, 5):%-m/%-d/%Y %-I:%M:%S %p},{Y[i]:.0f}"), "", [at(i % 150, 5) for i in range(N)], "Value"),
    "201306-citibike-tripdata.csv": (lines(['"tripduration","starttime","start station id","bikeid","gender"'], lambda i: f'"{Y[i] * 20:.0f}","{at(i, 13)}","{400 + i % 9}","{16000 + i * 7 % 900}","{i % 3}"'), "", T(13), "tripduration,gender"),
    "EIA930_BALANCE.csv": (lines(['"Data Date","Hour Number","Local Time at End of Hour","Demand (MW)"'], lambda i: f'"{at(i, 3600):%m/%d/%Y}","{i % 24 + 1}","{at(i + 1, 3600):%m/%d/%Y %I:%M:%S %p}","{int(Y[i] * 100):,}"'), "", [at(i + 1, 3600) for i in range(N)], "Hour Number,Demand (MW)"),
    "Steel_industry_data.csv": (lines(["date,Usage_kWh,WeekStatus"], lambda i: f"{at(i // 100 * 100 + (i + 1) % 100, 864):%d/%m/%Y %H:%M:%S},{X[i]},Weekday"), "", T(864), "Usage_kWh"),
    "Mainz.lev20": (lines(["AERONET Version 3; ", "Mainz", "Date(dd:mm:yyyy),Time(hh:mm:ss),AOD_870nm"], lambda i: f"{at(i, 900):%d:%m:%Y,%H:%M:%S},{X[i]}"), "", T(900), "AOD_870nm"),
    "dstat.csv": (lines(['"time","usr","sys"'], lambda i: f"{at(i, 1):%d-%m %H:%M:%S},{X[i]},{Y[i]}"), "", None, "usr,sys"),
    "get-metric-data.json": (J({"MetricDataResults": [{"Id": "m1", "Label": "CPU", "Timestamps": [iso(i, 300) for i in range(N)], "Values": [*X], "StatusCode": "Complete"}], "Messages": []}), "", T(300), "Values"),
    "history_bulk.json": (J([{"main": {"temp": X[i], "feels_like": X[i] - 3}, "dt": 1615593600 + 3600 * i, "dt_iso": f"{at(i, 3600)} +0000 UTC", "city_name": "London", "lat": 51.5} for i in range(N)]), "", T(3600), "main.temp,main.feels_like,lat"),
    "cloudfront.txt": (lines(["#Version: 1.0", "#Fields: date time sc-bytes time-taken"], lambda i: f"{at(i, 7):%Y-%m-%d\t%H:%M:%S}\t{Y[i] * 100:.0f}\t{X[i]}"), "", T(7), "sc-bytes,time-taken"),
    "nwis_dv.txt": (lines(["# Geological Survey", "agency_cd\tsite_no\tdatetime\t84861_00060", "5s\t15s\t20d\t14n"], lambda i: f"USGS\t06090800\t{at(i, 86400):%Y-%m-%d}\t{'Ice' if 40 < i < 60 else f'{Y[i]:.0f}'}"), "", T(86400), "84861_00060"),
    "WDI.csv": (lines(["Country Name,Series Name,1990 [YR1990],1991 [YR1991]"], lambda i: f'"Land{i}, Rep.",Growth (%),{X[i]},{Y[i] if i % 9 else ".."}', tail=[",,,", ",,,", "Data from database: World Development Indicators,,,", "Last Updated: 03/13/2021,,,"]), "", None, 2),
    "monthly_in_situ_co2_mlo.csv": (lines(['"-----------"', '" Atmospheric CO2 concentrations (ppm), derived from in situ air measurements"', "  Yr, Mn,    Date,      Date,     CO2,seasonally, Sta", "    ,   ,        ,          ,        ,  adjusted, ", "    ,   ,   Excel,          ,   [ppm],    [ppm] , "], lambda i: f"{1958 + i // 12},{i % 12 + 1:3d}, {21200 + 30.4 * i:6.0f}, {1958 + (i + 0.5) / 12:9.4f}, {-99.99 if i < 2 else 300 + X[i]:7.2f}, {-99.99 if i < 2 else 300 + Y[i]:7.2f}, MLO"), "", [datetime(1958 + i // 12, i % 12 + 1, 1) for i in range(N)], "Date,Date_2,CO2,seasonally"),
    "demo_r_mwk_ts_linear.csv": (lines(["DATAFLOW,LAST UPDATE,freq,geo,TIME_PERIOD,OBS_VALUE,OBS_FLAG"], lambda i: f"ESTAT:DEMO(1.0),13/03/21 23:00:00,W,{('AT', 'BE', 'BG', 'CH', 'CY', 'CZ')[i // 50]},2020-W{i % 50 + 1:02d},{Y[i]:.0f},{'p' * (i % 50 > 46)}"), "", [datetime.fromisocalendar(2020, i % 50 + 1, 1) for i in range(N)], "OBS_VALUE"),
    "ILINet.csv": (lines(["PERCENTAGE OF VISITS FOR INFLUENZA-LIKE-ILLNESS", "REGION TYPE,REGION,YEAR,WEEK,% WEIGHTED ILI,AGE 25-49"], lambda i: f"National,X,{1997 + (i + 39) // 52},{(i + 39) % 52 + 1},{X[i]},{'X' if i < 99 else 7}"), "", [datetime.fromisocalendar(1997 + (i + 39) // 52, (i + 39) % 52 + 1, 1) for i in range(N)], "?"),
    "Walmart.csv": (lines(["Store,Date,Weekly_Sales,Holiday_Flag"], lambda i: f"{i // 50 + 1},{at(i % 50, 604800):%d-%m-%Y},{Y[i] * 30000:.2f},{int(i % 9 == 3)}"), "", [at(i % 50, 604800) for i in range(N)], "Weekly_Sales,Holiday_Flag"),
    "fluxtable.txt": (lines(["fluxdate    fluxtime    fluxjulian    fluxobsflux", "----------  ----------  ------------  -----------"], lambda i: f"{at(i // 3, 86400):%Y%m%d}    {17 + 3 * (i % 3)}0000      {2453307.229 + i / 8:012.3f}      {100 + X[i]:08.1f}"), "", [at(i // 3, 86400) + timedelta(hours=17 + 3 * (i % 3)) for i in range(N)], "fluxjulian,fluxobsflux"),
    "61111-0002.csv": (lines(["GENESIS-Tabelle: 61111-0002", "Verbraucherpreisindex: Deutschland, Monate;;;", ";;Verbraucherpreisindex;Veränderung", ";;2015=100;in (%)"], lambda i: f"{1991 + i // 12};{MONATE[i % 12]};{c1(X[i])};{c1(Y[i]) if i > 11 else '-'}", tail=["__________", "(C)opyright Statistisches Bundesamt (Destatis), 2021"]).encode("latin-1"), "", [datetime(1991 + i // 12, i % 12 + 1, 1) for i in range(N)], 2),
    "vpcflow.log": (lines(["version srcaddr dstport packets start end action"], lambda i: f"2 172.31.16.{i % 9} 22 {Y[i]:.0f} {1615593600 + 9 * i} {1615593660 + 9 * i + i % 7} ACCEPT"), "", T(9), "version,dstport,packets"),
    "nvidia-smi.csv": (lines(["timestamp, name, utilization.gpu [%], power.draw [W]"], lambda i: f"{at(i, 1):%Y/%m/%d %H:%M:%S}.000, Tesla V100-SXM2-16GB, {X[i]:.0f} %, {'[N/A]' if i == 33 else f'{X[i]:.2f} W'}"), "", T(1), 2),
    "docker-json.log": (lines([], lambda i: J({"log": f"GET /api/v{i % 3} took {i % 7} ms\n", "stream": "stdout", "time": f"{at(i, 2):%Y-%m-%dT%H:%M:%S}.000000000Z"})), "--text log", T(2), "log"),
    "dmesg.txt": (lines([], lambda i: f"[{i * 0.37:12.6f}] usb 1-{i % 4}: new high-speed USB device"), "--text text", None, "text"),
    "stazioni.json": (J([{"data": f"{at(i, 3600):%d/%m/%Y %H:%M}", "stazione": "Ponte", "livello": c3(X[i]), "portata": f"{Y[i] * 50:,.1f}".translate(str.maketrans(",.", ".,"))} for i in range(N)]), "", T(3600), "livello,portata"),
    "yahoo_chart.json": (J({"chart": {"result": [{"meta": {"symbol": "AAPL", "validRanges": ["1d", "5d", "max"]}, "timestamp": [1615593600 + 86400 * i for i in range(N)], "indicators": {"quote": [{"open": [*X], "close": [*Y[:-1], None]}], "adjclose": [{"adjclose": [*X]}]}}], "error": None}}), "", T(86400), "open,close,adjclose"),
    "energy_charts.json": (J({"unix_seconds": [1615593600 + 900 * i for i in range(N)], "production_types": [{"name": "Solar", "data": [*X]}, {"name": "Wind", "data": [*Y]}], "deprecated": False}), "", T(900), "production_types.Solar.data,production_types.Wind.data"),
    "F-F_Research_Data_Factors.CSV": (lines(["This file was created by a program.", "", ",Mkt-RF,SMB"], lambda i: f"{1926 + i // 12}{i % 12 + 1:02d},{X[i]:8.2f},{Y[i]:8.2f}", tail=["", " Annual Factors: January-December ", ",Mkt-RF,SMB", *(f"  {1926 + k},{X[k]:8.2f},{Y[k]:8.2f}" for k in range(25)), "", "Copyright 2021 Kenneth R. French"]), "", [datetime(1926 + i // 12, i % 12 + 1, 1) for i in range(N)], "Mkt-RF,SMB"),
    "nfdump.csv": (lines(["ts,td,pr,ipkt"], lambda i: f"{at(i, 3)},{X[i]},TCP,{Y[i]:.0f}", tail=["Summary", "flows,bytes,packets,avg_bps,avg_pps", "300,123456,2345,789,12"]), "", T(3), "td,ipkt"),
    "20081023025304.plt": (lines(["Geolife trajectory", "WGS 84", "Reserved 3", "0,2,255,My Track,0,0,2,8421376", "0"], lambda i: f"{39 + X[i] / 9:.6f},{116 + Y[i] / 9:.6f},0,{X[i]:.0f},{44268 + i * 5 / 86400:.10f},{at(i, 5):%Y-%m-%d,%H:%M:%S}"), "", T(5), "c1,c2,c3,c4,c5"),
    "ecdc.csv": (lines(["dateRep,cases,countriesAndTerritories,popData2019"], lambda i: f"{at(99 - i % 100, 86400):%d/%m/%Y},{Y[i]:.0f},{('Afghanistan', 'Albania', 'Algeria')[i // 100]},{i // 100 + 38041757}"), "", [at(i % 100, 86400) for i in range(N)], "cases,popData2019"),
    "cbs_odata.json": (J({"odata.metadata": "https://opendata.cbs.nl/", "value": [{"ID": i, "Perioden": f"{1995 + i // 12}MM{i % 12 + 1:02d}", "CPI_1": X[i]} for i in range(N)]}), "", [datetime(1995 + i // 12, i % 12 + 1, 1) for i in range(N)], "CPI_1"),
    "POWER_Point_Daily.csv": (lines(["-BEGIN HEADER-", "NASA/POWER Native Resolution Daily Data ", "Dates (month/day/year): 03/13/2021 through 01/06/2022 ", "-END HEADER-", "YEAR,DOY,T2M,PRECTOTCORR"], lambda i: f"{at(i, 86400):%Y},{at(i, 86400):%-j},{X[i]},{-999.0 if i % 90 == 5 else Y[i]}"), "", T(86400), "T2M,PRECTOTCORR"),
    "Umsatz.csv": (lines(["Datum,Umsatz,Anteil"], lambda i: f'"{at(i, 86400).day}. {MONATE[at(i, 86400).month - 1]} {at(i, 86400).year}","{c1(Y[i])} €","{c1(X[i])} %"'), "", T(86400), "Umsatz,Anteil"),
    "Region_Mobility_Report.csv": (lines(["country_region_code,sub_region_1,date,parks_percent_change_from_baseline"], lambda i: f"GB,{'Aberdeen City' * (i > 149)},{at(i % 150, 86400):%Y-%m-%d},{X[i]:.0f}"), "", "?", "parks_percent_change_from_baseline"),
}  # fmt: skip
