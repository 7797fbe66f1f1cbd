-- What do customers with children or vehicles spend in large stores on Mondays?
WITH ticket AS (
  SELECT
    ss_ticket_number,
    ss_customer_sk,
    s_city,
    sum(ss_coupon_amt) AS coupons,
    sum(ss_net_profit) AS profit
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  JOIN store ON s_store_sk = ss_store_sk
  JOIN household_demographics ON hd_demo_sk = ss_hdemo_sk
  WHERE d_day_name = 'Monday'
    AND d_year BETWEEN 1998 AND 2000
    AND s_number_employees >= 200
    AND (hd_dep_count = 6 OR hd_vehicle_count > 2)
  GROUP BY ss_ticket_number, ss_customer_sk, ss_addr_sk, s_city
)
SELECT
  c_last_name, c_first_name, left(s_city, 30) AS city, ss_ticket_number, coupons, profit
FROM ticket
JOIN customer ON c_customer_sk = ss_customer_sk
ORDER BY c_last_name, c_first_name, city, profit, ss_ticket_number, coupons
LIMIT 100
