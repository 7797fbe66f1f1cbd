-- Which customers' payments grow faster on the web than in stores, between two periods?
WITH paid AS (
  SELECT
    c_customer_id,
    c_first_name,
    c_last_name,
    d_year >= 2000 AS is_later,
    false AS is_web,
    sum(ss_net_paid) AS total
  FROM store_sales
  JOIN customer ON c_customer_sk = ss_customer_sk
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  WHERE d_year BETWEEN 1998 AND 2001
  GROUP BY c_customer_id, c_first_name, c_last_name, d_year >= 2000
  UNION ALL
  SELECT
    c_customer_id, c_first_name, c_last_name, d_year >= 2000, true, sum(ws_net_paid)
  FROM web_sales
  JOIN customer ON c_customer_sk = ws_bill_customer_sk
  JOIN date_dim ON d_date_sk = ws_sold_date_sk
  WHERE d_year BETWEEN 1998 AND 2001
  GROUP BY c_customer_id, c_first_name, c_last_name, d_year >= 2000
)
SELECT s1.c_customer_id, s1.c_first_name, s1.c_last_name
FROM paid AS s1
JOIN paid AS s2 ON s2.c_customer_id = s1.c_customer_id AND NOT s2.is_web AND s2.is_later
JOIN paid AS w1 ON w1.c_customer_id = s1.c_customer_id AND w1.is_web AND NOT w1.is_later
JOIN paid AS w2 ON w2.c_customer_id = s1.c_customer_id AND w2.is_web AND w2.is_later
WHERE NOT s1.is_web
  AND NOT s1.is_later
  AND w2.total / nullif(w1.total, 0) > s2.total / nullif(s1.total, 0)
ORDER BY s1.c_customer_id, s1.c_first_name, s1.c_last_name
LIMIT 100
