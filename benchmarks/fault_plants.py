"""Five more processes with faults, unlike the one of `benchmarks.faults`, for judging only.

Each returns ``rows`` rows, with a fault from row ``at`` on, and the column whose step
causes it, or -1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
TANKS, SENSORS, LATENT, ROOMS, PRESSES = 6, 32, 6, 6, 5
TANK_KINDS = (
    "feed steps", "feed is colder", "pump is weak", "level sensor is off", "heater fouls",
    "tank leaks", "valve sticks", "thermometer is frozen", "flow meter is noisy",
    "level controller is slow", "thermometer drifts", "set point of a heater steps",
)  # fmt: skip
BATCH_KINDS = (
    "jacket is cold", "feed is weak", "stirrer slips", "thermometer is off", "pressure leaks",
    "heating is slow", "stirrer is noisy", "charge is small", "pH is off", "pH drifts",
)  # fmt: skip
LAG_KINDS = (
    "cause steps", "cause swings", "cause is noisy", "sensor is off", "sensor is slow",
    "sensor is frozen", "sensor is noisy", "sensor shows half", "sensor drifts", "sensors swapped",
)  # fmt: skip
ROOM_KINDS = (
    "thermometer is off", "set point steps", "radiator valve is off", "set point of supply steps",
    "pump is weak", "outdoor thermometer is off", "fan is off", "CO2 sensor is off",
    "supply thermometer is off", "burner is strong",
)  # fmt: skip

PRESS_KINDS = (
    "press is slow", "press is hard", "air leaks", "compressor is weak", "water pump is weak",
    "thermometer is off", "pressure sensor is off", "ammeter is off", "stock is miscounted",
)  # fmt: skip


def tanks(seed: int, kind: int, rows: int, at: int) -> tuple[FloatArray, int]:
    """Six heated tanks in a row with a recycle; levels and temperatures are controlled.

    Columns: level, temperature, flow, valve and heater of each tank, then feed and ambient.
    """
    rng = np.random.default_rng([seed, 48])
    n, begin, k = rows + 400, at + 400, int(rng.integers(TANKS))
    sign = float(rng.choice([-1.0, 1.0]))
    level, hot = np.full(TANKS, 5.0), 24.0 + np.cumsum(rng.uniform(2.0, 6.0, TANKS))
    aim, set_at = hot.copy(), np.full(TANKS, 5.0)
    valve, heater = np.full(TANKS, 0.5), np.full(TANKS, 0.5)
    sum_level, sum_hot = np.zeros(TANKS), np.zeros(TANKS)
    area, loss = rng.uniform(4.0, 12.0, TANKS), rng.uniform(0.004, 0.02, TANKS)
    gain, fouled, stuck = rng.uniform(0.05, 0.2, TANKS), np.ones(TANKS), valve.copy()
    pump, feed, ambient, cold = np.ones(TANKS), 0.0, 0.0, 0.0
    out, noise = np.empty((n, 5 * TANKS + 2)), rng.normal(size=(n, 5 * TANKS + 2))
    for t in range(n):
        bad = t >= begin
        feed = 0.95 * feed + 0.05 * rng.normal()
        ambient = 0.995 * ambient + 0.1 * rng.normal()
        cold = 0.98 * cold + 0.2 * rng.normal()
        into = 1.0 + feed + (0.15 * sign if bad and kind == 0 else 0.0)
        warm = 20.0 + cold - (6.0 if bad and kind == 1 else 0.0)
        pump[k] = 0.8 if bad and kind == 2 else 1.0
        if bad and kind == 4:
            fouled[k] = max(0.6, fouled[k] - 0.002)
        moved = np.clip(valve, 0.0, 1.0)
        if bad and kind == 6 and abs(moved[k] - stuck[k]) < 0.06:
            moved[k] = stuck[k]
        stuck = moved.copy()
        flow = pump * 2.0 * moved**1.3 * np.sqrt(np.maximum(level, 0.0) / 5.0) * 1.1
        flow *= 1.0 + 0.01 * rng.normal(size=TANKS)
        back = 0.2 * flow[-1]
        enters = np.append(into + back, flow[:-1])
        warms = np.append((into * warm + back * hot[-1]) / (into + back), hot[:-1])
        leak = np.zeros(TANKS)
        leak[k] = 0.1 if bad and kind == 5 else 0.0
        level = np.maximum(level + (enters - flow - leak) / area, 0.1)
        heat = 30.0 * fouled * np.clip(heater, 0.0, 1.0) ** 1.2
        hot = hot + enters * (warms - hot) / (area * level) * 3.0 + heat / (area * level) * 3.0
        hot = hot + loss * (20.0 + ambient - hot)
        row = np.concatenate([level, hot, flow, valve, heater, [into, ambient]])
        size = np.repeat([0.03, 0.2, 0.02, 0.0, 0.0], TANKS)
        row += noise[t] * np.append(size, [0.02, 0.3])
        if bad and kind == 3:
            row[k] += 0.25 * sign
        if bad and kind == 7:
            row[TANKS + k] = out[begin - 1, TANKS + k]
        if bad and kind == 8:
            row[2 * TANKS + k] += 0.06 * noise[t, k]
        if bad and kind == 10:
            row[TANKS + k] += 0.01 * sign * (t - begin)
        out[t] = row
        goal = aim + np.where((np.arange(TANKS) == k) & bad & (kind == 11), 2.0 * sign, 0.0)
        off_level, off_hot = row[:TANKS] - set_at, goal - row[TANKS : 2 * TANKS]
        sum_level += 0.01 * off_level * np.where(bad and kind == 9, 0.2, 1.0)
        sum_hot += 0.004 * off_hot
        valve = 0.5 + gain * off_level * np.where(bad and kind == 9, 0.2, 1.0) + sum_level
        heater = np.clip(0.4 + 0.05 * off_hot + sum_hot, 0.0, 1.0)
    steps = {0: 5 * TANKS, 2: 2 * TANKS + k, 3: k, 11: TANKS + k}
    return out[400:], steps.get(kind, -1)


def batches(seed: int, kind: int, rows: int, at: int) -> tuple[FloatArray, int]:
    """Batches of one recipe, filled, heated, held, cooled and emptied, that differ a little.

    Columns: level, vessel, jacket, coil, pressure, stirrer, power, pH, acid, feed, steam, water.
    """
    rng = np.random.default_rng([seed, 49])
    out, vessel, jacket, level, base, sign = (
        [],
        20.0,
        20.0,
        0.0,
        7.0,
        float(rng.choice([-1.0, 1.0])),
    )
    slow = 0.0
    while len(out) < rows:
        charge, heat = rng.normal(1.0, 0.03), rng.normal(1.0, 0.03)
        lasts = [max(4, int(mean * rng.normal(1.0, 0.06))) for mean in (15, 12, 40, 15, 10)]
        for phase, length in enumerate(lasts):
            for _ in range(length):
                bad = len(out) >= at
                since = len(out) - at
                slow = 0.99 * slow + 0.1 * rng.normal()
                feed = (charge if phase == 0 else 0.0) * (0.8 if bad and kind == 1 else 1.0)
                feed *= 0.85 if bad and kind == 7 else 1.0
                level = max(level + feed / 15.0 - (0.1 if phase == 4 else 0.0), 0.02)
                aim = (30.0, 90.0, 80.0, 15.0, 20.0)[phase] * (heat if phase == 1 else 1.0)
                aim -= 6.0 if bad and kind == 0 else 0.0
                rate = 0.15 * (0.6 if bad and kind == 5 else 1.0)
                jacket += rate * (aim + slow - jacket)
                vessel += 0.12 * (jacket - vessel) + (0.25 if phase == 2 else 0.0)
                base += 0.1 * ((4.5 if phase == 2 else 7.0) - base)
                speed = (60.0, 120.0, 120.0, 90.0, 30.0)[phase]
                seen = speed * (0.95 if bad and kind == 2 else 1.0)
                seen *= 1.0 + 0.005 * rng.normal() * (5.0 if bad and kind == 6 else 1.0)
                power = 0.01 * speed * (0.3 + level) * (0.85 if bad and kind == 2 else 1.0)
                press = 1.0 + 0.02 * vessel * (0.9 if bad and kind == 4 else 1.0)
                far = 1.5 * sign if bad and kind == 3 else 0.0
                acid = base + (0.25 * sign if bad and kind == 8 else 0.0)
                acid += 0.003 * sign * since if bad and kind == 9 else 0.0
                steam, water = max(aim - jacket, 0.0), max(jacket - aim, 0.0)
                exact = [
                    level, vessel + far, jacket, 0.5 * (vessel + jacket), press, seen, power, acid,
                    max(7.0 - base, 0.0), feed, steam, water,
                ]  # fmt: skip
                size = [.01, .3, .3, .3, .01, .3, .02, .03, .02, .01, .3, .3]  # fmt: skip
                out.append(np.array(exact) + np.array(size) * rng.normal(size=12))
    return np.array(out[:rows]), {0: 2, 1: 9, 2: 5, 3: 1, 8: 7}.get(kind, -1)


def lags(seed: int, kind: int, rows: int, at: int) -> tuple[FloatArray, int]:
    """Six slow causes seen by 32 sensors: lagged, delayed, coarse, held, and with heavy tails."""
    rng = np.random.default_rng([seed, 50])
    n, begin = rows + 400, at + 400
    cause, one, two = int(rng.integers(LATENT)), *rng.choice(SENSORS, 2, replace=False).tolist()
    phi, sign = rng.uniform(0.6, 0.98, LATENT), float(rng.choice([-1.0, 1.0]))
    steps, X = rng.normal(size=(n, LATENT)) * np.sqrt(1.0 - phi**2), np.zeros((n, LATENT))
    since = np.maximum(np.arange(n) - begin + 1, 0)
    if kind == 2:
        steps[begin:, cause] *= 4.0
    for t in range(1, n):
        X[t] = phi * X[t - 1] + steps[t]
    X[:, cause] += sign * 3.0 * (since > 0) * (kind == 0)
    X[:, cause] += 3.0 * np.sin(since / 4.0) * (kind == 1)
    weights = rng.normal(size=(LATENT, SENSORS)) * (rng.random((LATENT, SENSORS)) < 0.35)
    weights[rng.integers(LATENT, size=SENSORS), np.arange(SENSORS)] += rng.choice(
        [-1.0, 1.0], SENSORS
    )
    tau, delay = rng.uniform(0.0, 12.0, SENSORS), rng.integers(0, 6, SENSORS)
    seen, out = X @ weights, np.zeros((n, SENSORS))
    noise = 0.15 * rng.standard_t(4.0, size=out.shape)
    for d in range(SENSORS):
        a, now = float(np.exp(-1.0 / max(tau[d], 0.05))), 0.0
        for t in range(n):
            late = float(np.exp(-1.0 / 40.0)) if kind == 4 and d == one and t >= begin else a
            now = late * now + (1.0 - late) * seen[max(t - int(delay[d]), 0), d]
            out[t, d] = now
    usual = out[400:begin].std(axis=0)
    out += noise * usual
    if kind == 3:
        out[:, one] += 2.0 * sign * usual[one] * (since > 0)
    elif kind == 5:
        out[begin:, one] = out[begin, one]
    elif kind == 6:
        out[begin:, one] += usual[one] * rng.normal(size=n - begin)
    elif kind == 7:
        out[begin:, one] *= 0.5
    elif kind == 8:
        out[:, one] += 0.02 * sign * usual[one] * since
    elif kind == 9:
        out[begin:, [one, two]] = out[begin:, [two, one]]
    out[:, 20:26] = np.round(out[:, 20:26] / (0.5 * usual[20:26])) * 0.5 * usual[20:26]
    for d, held in zip(range(26, 32), (2, 3, 5, 5, 10, 10), strict=True):
        out[:, d] = out[np.arange(n) // held * held, d]
    out *= 10.0 ** rng.uniform(-2.0, 3.0, SENSORS)
    return out[400:], one if kind == 3 else -1


def rooms(seed: int, kind: int, rows: int, at: int) -> tuple[FloatArray, int]:
    """Six heated and ventilated rooms, a boiler by the weather: controllers within controllers.

    Columns: temperature, radiator valve, CO2 and fan of each room, then supply temperature,
    burner, flow, return temperature and outdoor temperature.
    """
    rng = np.random.default_rng([seed, 77])
    n, begin, k = rows + 500, at + 500, int(rng.integers(ROOMS))
    sign = float(rng.choice([-1.0, 1.0]))
    warm, valve, fan = np.full(ROOMS, 21.0), np.full(ROOMS, 0.4), np.full(ROOMS, 0.4)
    sum_warm, sum_air, air = np.zeros(ROOMS), np.zeros(ROOMS), np.full(ROOMS, 600.0)
    supply, burner, sum_supply, back, outdoor, fast = 55.0, 0.5, 0.0, 45.0, 5.0, 0.0
    aim, capacity = rng.uniform(20.0, 22.5, ROOMS), rng.uniform(15.0, 40.0, ROOMS)
    loss, size = rng.uniform(0.01, 0.03, ROOMS), rng.uniform(0.5, 1.5, ROOMS)
    wall, people = rng.uniform(0.0, 0.03, ROOMS), np.zeros(ROOMS)
    noise = np.repeat([0.05, 0.004, 8.0, 0.005], ROOMS)
    noise = np.append(noise, [0.2, 0.005, 0.01, 0.2, 0.1])
    out, z = np.empty((n, 4 * ROOMS + 5)), rng.normal(size=(n, 4 * ROOMS + 5))
    for t in range(n):
        of = kind if t >= begin else -1
        outdoor = 5.0 + 0.99 * (outdoor - 5.0) + 0.1 * rng.normal()
        fast = 0.8 * fast + 0.05 * rng.normal()
        people = np.where(rng.random(ROOMS) < 0.03, rng.poisson(1.5, ROOMS), people)
        moved, blows = np.clip(valve, 0.0, 1.0), np.clip(fan, 0.05, 1.0)
        if of == 2:
            moved[k] = np.clip(moved[k] + 0.25 * sign, 0.0, 1.0)
        if of == 6:
            blows[k] = min(blows[k] + 0.3, 1.0)
        pump = (0.7 if of == 4 else 1.0) * (1.0 + 0.01 * rng.normal())
        flow = pump * moved * size / (1.0 + 0.1 * moved.sum())
        heat = 0.5 * flow * (supply - warm)
        side = wall * (np.roll(warm, 1) - warm)
        side += np.roll(wall, -1) * (np.roll(warm, -1) - warm)
        lost = (loss * capacity + 0.15 * blows) * (warm - outdoor)
        warm = warm + (heat - lost + side * capacity + 0.1 * people) / capacity
        warm += 0.01 * rng.normal(size=ROOMS)
        air = air + (18.0 * people - 0.12 * blows * (air - 420.0))
        back += 0.3 * (supply - heat.sum() / max(flow.sum(), 0.05) - back)
        power = burner + (0.15 * sign if of == 9 else 0.0)
        supply += 0.2 * (back + 40.0 * power - supply) - 0.02 * (supply - 20.0) + 0.1 * fast
        last = [supply, np.clip(power, 0.0, 1.2), flow.sum(), back, outdoor + fast]
        row = np.concatenate([warm, moved, air, blows, last]) + z[t] * noise
        for what, column, off in (
            (0, k, 0.6 * sign), (5, -1, 3.0 * sign), (7, 2 * ROOMS + k, 150.0),
            (8, 4 * ROOMS, 3.0 * sign),
        ):  # fmt: skip
            row[column] += off if of == what else 0.0
        out[t] = row
        goal = aim + np.where((np.arange(ROOMS) == k) & (of == 1), sign, 0.0)
        sum_warm = np.clip(sum_warm + 0.01 * (goal - row[:ROOMS]), -0.5, 0.6)
        valve = 0.4 + 0.35 * (goal - row[:ROOMS]) + sum_warm
        stale = row[2 * ROOMS : 3 * ROOMS] - 700.0
        sum_air = np.clip(sum_air + 2e-5 * stale, -0.4, 0.6)
        fan = 0.4 + 0.0015 * stale + sum_air
        off = 62.0 - row[-1] + (5.0 * sign if of == 3 else 0.0) - row[4 * ROOMS]
        sum_supply = np.clip(sum_supply + 0.002 * off, -0.5, 0.7)
        burner = np.clip(0.4 + 0.02 * off + sum_supply, 0.0, 1.0)
    steps = [k, k, ROOMS + k, 4 * ROOMS, 4 * ROOMS + 2, 4 * ROOMS + 4, 3 * ROOMS + k]
    steps += [2 * ROOMS + k, 4 * ROOMS, 4 * ROOMS + 1]
    return out[500:], steps[kind] if kind >= 0 else -1


def presses(seed: int, kind: int, rows: int, at: int) -> tuple[FloatArray, int]:
    """Five presses that share compressed air and cooling water, and wait for each other.

    Columns: force, oil temperature, current, stroke and stock of each press, then the pressure,
    flow and power of the air, and the temperature and flow of the water. A thermostat is on or off.
    """
    rng = np.random.default_rng([seed, 78])
    n, begin, k = rows + 300, at + 300, int(rng.integers(PRESSES))
    sign = float(rng.choice([-1.0, 1.0]))
    speed, hard = rng.uniform(0.7, 1.3, PRESSES), rng.uniform(0.8, 1.2, PRESSES)
    oil, stock = np.full(PRESSES, 45.0), np.full(PRESSES, 20.0)
    pressure, total, water, chills, batch, wear = 7.0, 0.0, 14.0, False, 0.0, 0.0
    noise = np.append(np.repeat([0.4, 0.2, 0.15, 0.3, 0.05], PRESSES), [0.03, 0.1, 0.3, 0.1, 0.2])
    out, z = np.empty((n, 5 * PRESSES + 5)), rng.normal(size=(n, 5 * PRESSES + 5))
    for t in range(n):
        of = kind if t >= begin else -1
        batch = 0.97 * batch + 0.25 * rng.normal()  # of material, harder or softer
        wear = 0.999 * wear + 0.02 * rng.normal()
        runs = np.where(stock > 2.0, 1.0, 0.3) * np.where(
            np.append(stock[1:], 0.0) < 38.0, 1.0, 0.3
        )
        rate = speed * runs * (1.0 + 0.02 * rng.normal(size=PRESSES))
        if of == 0:
            rate[k] *= 0.7
        force = 50.0 * hard * (1.0 + 0.03 * batch) + 2.0 * (pressure - 7.0) + wear
        if of == 1:
            force[k] += 4.0 * sign
        used = 2.0 * rate.sum() + (1.5 if of == 2 else 0.0)
        total = np.clip(total + 0.02 * (7.0 - pressure), -5.0, 5.0)
        air = np.clip(10.0 + 8.0 * (7.0 - pressure) + 10.0 * total, 0.0, 20.0)
        pressure += 0.05 * (air * (0.8 if of == 3 else 1.0) - used)
        chills = water > 15.0 or (chills and water > 13.0)
        flow = 12.0 * (0.6 if of == 4 else 1.0)
        taken = 0.004 * flow * (oil - water)
        oil = oil + 0.03 * rate * force - taken - 0.01 * (oil - 20.0)
        water += 0.02 * taken.sum() - (1.2 if chills else 0.0) + 0.02 * (20.0 - water)
        stock = np.clip(stock + np.append(speed[0], rate[:-1]) - rate, 0.0, 40.0)
        current = 0.2 * force * rate + 3.0 + 0.05 * (60.0 - oil)
        last = [pressure, air, 2.0 + 0.5 * air * pressure, water, flow]
        row = np.concatenate([force, oil, current, 30.0 * rate, stock, last]) + z[t] * noise
        for what, column, off in (
            (5, PRESSES + k, 2.5 * sign), (6, 5 * PRESSES, 0.25 * sign),
            (7, 2 * PRESSES + k, 1.5 * sign), (8, 4 * PRESSES + k, 4.0),
        ):  # fmt: skip
            row[column] += off if of == what else 0.0
        out[t] = row
    steps = [3 * PRESSES + k, k, 5 * PRESSES + 1, 5 * PRESSES, 5 * PRESSES + 4, PRESSES + k]
    steps += [5 * PRESSES, 2 * PRESSES + k, 4 * PRESSES + k]
    return out[300:], steps[kind] if kind >= 0 else -1


PLANTS = {
    "tanks": (tanks, TANK_KINDS),
    "batches": (batches, BATCH_KINDS),
    "lags": (lags, LAG_KINDS),
    "rooms": (rooms, ROOM_KINDS),
    "presses": (presses, PRESS_KINDS),
}
